//! Graphs of models without their files: the nodes that llama.cpp hands to TRI0, in its order, without memory.
//!
//! The embedding of tokens is not among them, since llama.cpp computes it on its CPU backend. Flash attention is on and the
//! KV cache is f16, as by default.

mod layers;
mod presets;
mod tape;

use super::{Graph, Type};

/// What distinguishes the graphs of architectures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `llama` and what is built like it.
    Llama,
    /// `qwen2`: Q, K and V have biases.
    Qwen2,
    /// `qwen3` and `qwen3moe`: heads of Q and K are normalised.
    Qwen3,
    /// `gemma3`: as Qwen3; results of attention and feed-forward are normalised too, and most layers see a window.
    Gemma3,
}

impl Style {
    /// The style of the architecture that GGUF calls `name`.
    pub fn of(name: &str) -> Option<Style> {
        match name {
            "llama" | "mistral3" => Some(Style::Llama),
            "qwen2" => Some(Style::Qwen2),
            "qwen3" | "qwen3moe" => Some(Style::Qwen3),
            "gemma3" => Some(Style::Gemma3),
            _ => None,
        }
    }

    /// ggml's mode of rotation: neighbours (0) or halves (2).
    fn rope(self) -> i32 {
        if self == Style::Llama { 0 } else { 2 }
    }

    /// Whether the heads of Q and K are normalised.
    fn head_norm(self) -> bool {
        matches!(self, Style::Qwen3 | Style::Gemma3)
    }
}

/// The types of one layer's weights. For experts, `gate`, `up` and `down` are theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Layer {
    pub q: Type,
    pub k: Type,
    pub v: Type,
    pub o: Type,
    pub gate: Type,
    pub up: Type,
    pub down: Type,
}

/// A mixture of experts in place of each feed-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experts {
    /// How many there are.
    pub count: u64,
    /// How many each token uses.
    pub used: u64,
}

/// Layers that attend to the last tokens only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Tokens that they see.
    pub tokens: u64,
    /// Each `period`-th layer sees all tokens.
    pub period: usize,
}

/// A model, by its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Its name; tensors of equal names are the same tensors.
    pub name: String,
    /// How its layers are built.
    pub style: Style,
    /// Each layer's types.
    pub layers: Vec<Layer>,
    /// Length of an embedding.
    pub embedding: u64,
    /// Heads of Q.
    pub heads: u64,
    /// Heads of K and V.
    pub kv_heads: u64,
    /// Size of a head.
    pub head: u64,
    /// Length of the feed-forward; of one expert's if there are any.
    pub ff: u64,
    /// The experts.
    pub experts: Option<Experts>,
    /// The window of Gemma 3.
    pub window: Option<Window>,
    /// Tokens that there are.
    pub vocabulary: u64,
    /// The type of the last product's weights.
    pub output: Type,
    /// Whether rotations have factors, as in Llama 3.
    pub rope_factors: bool,
}

/// Up to this many tokens in a pass, all of them get logits: decoding, or a check of speculated tokens. In longer passes,
/// which are prompts, only the last one does.
pub const CHECKED: u64 = 16;

impl Model {
    /// The graph of `width` tokens of one sequence when `kv_length` positions of the cache are looked at; llama.cpp rounds
    /// that up to a multiple of 256, and so does this. Tensors keep their ids over widths.
    pub fn graph(&self, width: u64, kv_length: u64) -> Graph {
        let kv = kv_length.max(1).next_multiple_of(256);
        let base = self.name.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
        let uid = [width, kv].iter().flat_map(|n| n.to_le_bytes()).fold(base, mix).max(1);
        let mut tape = tape::Tape::new(base);
        layers::build(self, &mut tape, width as i64, kv as i64);
        Graph { uid, nodes: tape.finish() }
    }
}

/// One step of the FNV-1a hash: the same number on every machine.
fn mix(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

#[cfg(test)]
#[path = "shapes/shapes_tests.rs"]
mod tests;
