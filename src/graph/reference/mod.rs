//! Scalar references of what shaders compute: short, slow and obviously right. Tests compare the shaders with them.

pub mod attention;
pub mod copies;
pub mod elementwise;
pub mod images;
pub mod norm;
pub mod product;
pub mod q8;
pub mod quant;
pub mod reduce;
pub mod rope;
pub mod softmax;
