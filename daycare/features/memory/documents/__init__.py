"""Documents: what people and agents keep as files, in versions and layers."""
