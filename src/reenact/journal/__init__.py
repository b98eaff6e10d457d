"""From records to lines and back: chains, folds, seals."""
