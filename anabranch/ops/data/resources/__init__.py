"""Resources that iterators of datasets share."""
