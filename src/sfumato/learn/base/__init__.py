"""What every estimator has in common: parameters, who pays, fitting on a table, saving, progress."""
