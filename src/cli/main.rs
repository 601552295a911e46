//! The `tri` command.

fn main() {}
