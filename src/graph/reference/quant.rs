//! The values of quantised blocks, one element at a time.
