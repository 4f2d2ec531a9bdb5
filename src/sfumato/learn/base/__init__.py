"""What every estimator has in common: parameters, who pays, saving, progress."""
