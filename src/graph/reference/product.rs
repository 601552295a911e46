//! Scalar reference of the operations in `engine::vulkan::ops` of this name.
