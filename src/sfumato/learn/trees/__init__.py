"""Decision trees and boosting."""
