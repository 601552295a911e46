//! Models of which the shapes are public, in the mixes of types that llama-quantize makes.

use super::{Experts, Layer, Model, Style, Window};
use crate::graph::Type;

/// The layers that llama-quantize gives better types to in its `_M` mixes: the first and last eighth, and each third between.
fn better(i: usize, n: usize) -> bool {
    i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2
}

/// Q4_K_M: V and the last product of a layer are Q6_K in half of the layers.
fn q4_k_m(n: usize) -> Vec<Layer> {
    let of = |i| {
        let more = if better(i, n) { Type::Q6_K } else { Type::Q4_K };
        let q = Type::Q4_K;
        Layer { q, k: q, v: more, o: q, gate: q, up: q, down: more }
    };
    (0..n).map(of).collect()
}

impl Model {
    /// Llama 3.2 1B in Q4_K_M; its output is the embedding, in Q6_K.
    pub fn llama_1b() -> Model {
        Model {
            name: "Llama 3.2 1B Q4_K_M".to_owned(),
            style: Style::Llama,
            layers: q4_k_m(16),
            embedding: 2048,
            heads: 32,
            kv_heads: 8,
            head: 64,
            ff: 8192,
            experts: None,
            window: None,
            vocabulary: 128_256,
            output: Type::Q6_K,
            rope_factors: true,
        }
    }

    /// Llama 3.1 8B in Q4_K_M.
    pub fn llama_8b() -> Model {
        Model {
            name: "Llama 3.1 8B Q4_K_M".to_owned(),
            layers: q4_k_m(32),
            embedding: 4096,
            head: 128,
            ff: 14_336,
            ..Model::llama_1b()
        }
    }

    /// Qwen3 30B-A3B in Q4_K_M: 128 experts, of which each token uses 8.
    pub fn qwen3_30b_a3b() -> Model {
        Model {
            name: "Qwen3 30B-A3B Q4_K_M".to_owned(),
            style: Style::Qwen3,
            layers: q4_k_m(48),
            kv_heads: 4,
            head: 128,
            ff: 768,
            experts: Some(Experts { count: 128, used: 8 }),
            vocabulary: 151_936,
            rope_factors: false,
            ..Model::llama_1b()
        }
    }

    /// SmolLM2 135M in Q4_1.
    pub fn smollm2_135m() -> Model {
        let q = Type::Q4_1;
        Model {
            name: "SmolLM2 135M Q4_1".to_owned(),
            layers: vec![Layer { q, k: q, v: q, o: q, gate: q, up: q, down: q }; 30],
            embedding: 576,
            heads: 9,
            kv_heads: 3,
            ff: 1536,
            vocabulary: 49_152,
            output: Type::Q8_0,
            rope_factors: false,
            ..Model::llama_1b()
        }
    }

    /// gemma-3-270m in Q4_K_M. Rows of 640 are no multiple of 256, so most weights have a type with blocks of 32.
    pub fn gemma_270m() -> Model {
        let of = |i| {
            let (v, down) = if better(i, 18) { (Type::Q8_0, Type::Q6_K) } else { (Type::Q5_0, Type::Q4_K) };
            let q = Type::Q5_0;
            Layer { q, k: q, v, o: Type::Q4_K, gate: q, up: q, down }
        };
        Model {
            name: "gemma-3-270m Q4_K_M".to_owned(),
            style: Style::Gemma3,
            layers: (0..18).map(of).collect(),
            embedding: 640,
            heads: 4,
            kv_heads: 1,
            head: 256,
            ff: 2048,
            window: Some(Window { tokens: 512, period: 6 }),
            vocabulary: 262_144,
            output: Type::Q8_0,
            rope_factors: false,
            ..Model::llama_1b()
        }
    }

    /// Every model here.
    pub fn presets() -> Vec<Model> {
        vec![Model::llama_1b(), Model::llama_8b(), Model::qwen3_30b_a3b(), Model::smollm2_135m(), Model::gemma_270m()]
    }
}
