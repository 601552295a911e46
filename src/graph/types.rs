//! ggml's tensor types as this project knows them: name, elements and bytes of a block.

/// A tensor type. `Other` is one that only ggml-cpu knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, non_camel_case_types)]
pub enum Type {
    F32,
    F16,
    BF16,
    F64,
    I8,
    I16,
    I32,
    I64,
    Q1_0,
    Q2_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ1_S,
    IQ1_M,
    IQ2_XXS,
    IQ2_XS,
    IQ2_S,
    IQ3_XXS,
    IQ3_S,
    IQ4_NL,
    IQ4_XS,
    TQ1_0,
    TQ2_0,
    MXFP4,
    NVFP4,
    Other,
}

/// (type, ggml's name, elements of a block, bytes of a block); ggml's `ggml-common.h` defines the blocks.
const TABLE: &[(Type, &str, u64, u64)] = &[
    (Type::F32, "f32", 1, 4),
    (Type::F16, "f16", 1, 2),
    (Type::BF16, "bf16", 1, 2),
    (Type::F64, "f64", 1, 8),
    (Type::I8, "i8", 1, 1),
    (Type::I16, "i16", 1, 2),
    (Type::I32, "i32", 1, 4),
    (Type::I64, "i64", 1, 8),
    (Type::Q1_0, "q1_0", 128, 18),
    (Type::Q2_0, "q2_0", 64, 18),
    (Type::Q4_0, "q4_0", 32, 18),
    (Type::Q4_1, "q4_1", 32, 20),
    (Type::Q5_0, "q5_0", 32, 22),
    (Type::Q5_1, "q5_1", 32, 24),
    (Type::Q8_0, "q8_0", 32, 34),
    (Type::Q8_1, "q8_1", 32, 36),
    (Type::Q2_K, "q2_K", 256, 84),
    (Type::Q3_K, "q3_K", 256, 110),
    (Type::Q4_K, "q4_K", 256, 144),
    (Type::Q5_K, "q5_K", 256, 176),
    (Type::Q6_K, "q6_K", 256, 210),
    (Type::IQ1_S, "iq1_s", 256, 50),
    (Type::IQ1_M, "iq1_m", 256, 56),
    (Type::IQ2_XXS, "iq2_xxs", 256, 66),
    (Type::IQ2_XS, "iq2_xs", 256, 74),
    (Type::IQ2_S, "iq2_s", 256, 82),
    (Type::IQ3_XXS, "iq3_xxs", 256, 98),
    (Type::IQ3_S, "iq3_s", 256, 110),
    (Type::IQ4_NL, "iq4_nl", 32, 18),
    (Type::IQ4_XS, "iq4_xs", 256, 136),
    (Type::TQ1_0, "tq1_0", 256, 54),
    (Type::TQ2_0, "tq2_0", 256, 66),
    (Type::MXFP4, "mxfp4", 32, 17),
    (Type::NVFP4, "nvfp4", 64, 36),
];

impl Type {
    /// The type with ggml's name `name`.
    pub fn from_name(name: &str) -> Type {
        TABLE.iter().find(|row| row.1 == name).map_or(Type::Other, |row| row.0)
    }

    fn row(self) -> Option<&'static (Type, &'static str, u64, u64)> {
        TABLE.iter().find(|row| row.0 == self)
    }

    /// ggml's name.
    pub fn name(self) -> &'static str {
        self.row().map_or("other", |row| row.1)
    }

    /// Elements of one block; 1 for plain numbers.
    pub fn block(self) -> u64 {
        self.row().map_or(1, |row| row.2)
    }

    /// Bytes of one block.
    pub fn bytes(self) -> u64 {
        self.row().map_or(1, |row| row.3)
    }

    /// Whether its values are packed in blocks.
    pub fn quantized(self) -> bool {
        self.block() > 1
    }

    /// Every type but `Other`.
    pub fn all() -> impl Iterator<Item = Type> {
        TABLE.iter().map(|row| row.0)
    }
}
