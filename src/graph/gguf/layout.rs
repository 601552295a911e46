//! From the names and shapes of a file's tensors to the graph's model: the layout that llama and most others have.

use super::{Gguf, Weight};
use crate::graph::Type;
use crate::graph::shapes::{Experts, Layer, Model, Style, Window};

/// A model whose graph can be made, and what its graph leaves out, in whole sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The shapes.
    pub model: Model,
    /// What differs from the model in the file.
    pub notes: Vec<String>,
}

/// The tensors with a matrix in it that a layer of the llama-like layout may have; `attn_qkv` stands for three.
const MATRICES: &[&str] = &[
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_qkv",
    "attn_output",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "ffn_gate_inp",
    "ffn_gate_exps",
    "ffn_up_exps",
    "ffn_down_exps",
];

/// The most layers, and experts of a token, so that a number in a file is not a number of steps. Large models have about 130
/// layers and use about 10 experts.
const MOST: u64 = 1024;

/// Gemma 3 has one layer in six that sees everything; its files do not say so.
const GEMMA_PERIOD: usize = 6;

/// The shapes of the model that a file describes.
///
/// # Errors
/// One sentence that names the architecture and what has no place in the layout.
pub fn describe(gguf: &Gguf) -> Result<Described, String> {
    let architecture = gguf.text("general.architecture").ok_or("The file names no architecture.")?.into_owned();
    File { gguf, architecture: &architecture }
        .describe()
        .map_err(|why| format!("A model of the architecture '{architecture}' cannot be planned: {why}."))
}

struct File<'a> {
    gguf: &'a Gguf<'a>,
    architecture: &'a str,
}

impl File<'_> {
    fn describe(&self) -> Result<Described, String> {
        self.only_known_matrices()?;
        let layers = self.number("block_count")?;
        if layers == 0 || layers > MOST {
            return Err(format!("it has {layers} layers, and 1 to {MOST} are read"));
        }
        let embedding = self.number("embedding_length")?;
        let heads = self.number("attention.head_count")?;
        let kv_heads = self.optional("attention.head_count_kv")?.unwrap_or(heads);
        if embedding == 0 || heads == 0 || kv_heads == 0 || heads % kv_heads != 0 {
            return Err(format!(
                "{heads} heads, {kv_heads} of them for K and V, on {embedding} numbers cannot be right"
            ));
        }
        let head = self.optional("attention.key_length")?.unwrap_or(embedding / heads);
        let value = self.optional("attention.value_length")?.unwrap_or(head);
        if head == 0 || value != head {
            return Err(format!(
                "its heads have {head} numbers for K and {value} for V, and the layout needs them equal"
            ));
        }
        let experts = self.experts()?;
        let ff = self.ff(experts.is_some())?;
        let sizes = Sizes { embedding, q: mul(heads, head)?, kv: mul(kv_heads, head)?, ff, experts };
        let layers = (0..layers).map(|i| self.layer(i, &sizes)).collect::<Result<Vec<_>, _>>()?;
        let embedded = self.weight("token_embd.weight")?;
        // Without a matrix of its own the output uses the embedding.
        let output = self.gguf.weight("output.weight").unwrap_or(embedded);
        let vocabulary = output.ne[1] as u64;
        fits(output, embedding, vocabulary, 1)?;
        let style = self.style();
        let window = self.window(style)?;
        let model = Model {
            name: self.gguf.text("general.name").unwrap_or_default().into_owned(),
            style,
            layers,
            embedding,
            heads,
            kv_heads,
            head,
            ff,
            experts,
            window,
            vocabulary,
            output: output.ty,
            rope_factors: self
                .gguf
                .weights
                .iter()
                .any(|w| w.name.starts_with("rope_freqs") || w.name.starts_with("rope_factors")),
        };
        Ok(Described { notes: self.notes(&model)?, model })
    }

    /// The style of a known architecture; else what its tensors look like.
    fn style(&self) -> Style {
        Style::of(self.architecture).unwrap_or_else(|| {
            let has = |name: &str| self.gguf.weight(&format!("blk.0.{name}")).is_some();
            match (has("attn_q_norm.weight"), has("post_ffw_norm.weight"), has("attn_q.bias")) {
                (true, true, _) => Style::Gemma3,
                (true, false, _) => Style::Qwen3,
                (false, _, true) => Style::Qwen2,
                (false, _, false) => Style::Llama,
            }
        })
    }

    fn window(&self, style: Style) -> Result<Option<Window>, String> {
        let tokens = self.optional("attention.sliding_window")?.filter(|tokens| *tokens > 0 && style == Style::Gemma3);
        Ok(tokens.map(|tokens| Window { tokens, period: GEMMA_PERIOD }))
    }

    fn notes(&self, model: &Model) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        if Style::of(self.architecture).is_none() {
            notes.push(format!(
                "The architecture '{}' is not known; its tensors fit the layout of llama, and it is planned as that.",
                self.architecture
            ));
        }
        if self.gguf.weight("blk.0.attn_qkv.weight").is_some() {
            notes.push("Q, K and V are one matrix in the file and are planned as three.".to_owned());
        }
        if let (None, Some(tokens @ 1..)) = (model.window, self.optional("attention.sliding_window")?) {
            notes.push(format!("Layers that see the last {tokens} tokens only are planned as if they saw all."));
        }
        Ok(notes)
    }

    /// Refuses a model with a matrix that the layout has no place for: it would be left out of the plan.
    fn only_known_matrices(&self) -> Result<(), String> {
        for weight in &self.gguf.weights {
            let place = weight.name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).map(|(_, name)| name);
            let matrix = place.is_some() && weight.ne[1] > 1 && !weight.name.ends_with(".bias");
            let known = |name: &str| name.strip_suffix(".weight").is_some_and(|name| MATRICES.contains(&name));
            if matrix && !place.is_some_and(known) {
                return Err(format!("its tensor '{}' has no place in the llama-like layout", weight.name));
            }
            if weight.name.starts_with("enc.") || weight.name.starts_with("dec.") {
                return Err(format!("its tensor '{}' belongs to an encoder with a decoder", weight.name));
            }
        }
        Ok(())
    }

    fn experts(&self) -> Result<Option<Experts>, String> {
        let count = self.optional("expert_count")?.unwrap_or(0);
        if count == 0 {
            return Ok(None);
        }
        let used = self.number("expert_used_count")?;
        if used == 0 || used > count || used > MOST {
            return Err(format!("each token uses {used} of {count} experts, which cannot be right"));
        }
        Ok(Some(Experts { count, used }))
    }

    /// Length of a feed-forward or of an expert's.
    fn ff(&self, experts: bool) -> Result<u64, String> {
        let own = if experts { self.optional("expert_feed_forward_length")? } else { None };
        match own {
            Some(ff) => Ok(ff),
            None => self.number("feed_forward_length"),
        }
    }

    fn layer(&self, i: u64, sizes: &Sizes) -> Result<Layer, String> {
        let &Sizes { embedding, q, kv, ff, experts } = sizes;
        let weight = |name: &str| self.gguf.weight(&format!("blk.{i}.{name}.weight"));
        let matrix = |name: &str, columns: u64, rows: u64, count: u64| {
            let weight = weight(name).ok_or_else(|| format!("it has no tensor 'blk.{i}.{name}.weight'"))?;
            fits(weight, columns, rows, count).map(|()| weight.ty)
        };
        let [q, k, v] = match weight("attn_qkv") {
            Some(all) => {
                fits(all, embedding, q.saturating_add(kv).saturating_add(kv), 1)?;
                [all.ty; 3]
            }
            None => [
                matrix("attn_q", embedding, q, 1)?,
                matrix("attn_k", embedding, kv, 1)?,
                matrix("attn_v", embedding, kv, 1)?,
            ],
        };
        let o = matrix("attn_output", sizes.q, embedding, 1)?;
        let [gate, up, down]: [Type; 3] = match experts {
            Some(Experts { count, .. }) => {
                matrix("ffn_gate_inp", embedding, count, 1)?;
                [
                    matrix("ffn_gate_exps", embedding, ff, count)?,
                    matrix("ffn_up_exps", embedding, ff, count)?,
                    matrix("ffn_down_exps", ff, embedding, count)?,
                ]
            }
            None if weight("ffn_gate").is_none() => {
                // Gate and up in one matrix, as phi3 and glm4 have them.
                let both = matrix("ffn_up", embedding, mul(2, ff)?, 1)?;
                [both, both, matrix("ffn_down", ff, embedding, 1)?]
            }
            None => [
                matrix("ffn_gate", embedding, ff, 1)?,
                matrix("ffn_up", embedding, ff, 1)?,
                matrix("ffn_down", ff, embedding, 1)?,
            ],
        };
        Ok(Layer { q, k, v, o, gate, up, down })
    }

    fn weight(&self, name: &str) -> Result<&Weight<'_>, String> {
        self.gguf.weight(name).ok_or_else(|| format!("it has no tensor '{name}'"))
    }

    /// A number of the architecture that must be there.
    fn number(&self, name: &str) -> Result<u64, String> {
        self.optional(name)?.ok_or_else(|| format!("the file has no '{}.{name}'", self.architecture))
    }

    /// A number of the architecture; for each layer it must be the same.
    fn optional(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(all) = self.gguf.numbers(&format!("{}.{name}", self.architecture)) else { return Ok(None) };
        let first = all.first().copied();
        if all.iter().any(|n| Some(*n) != first) {
            return Err(format!("its layers differ in '{name}'"));
        }
        Ok(first)
    }
}

/// What the shapes of a layer's matrices follow from.
struct Sizes {
    embedding: u64,
    q: u64,
    kv: u64,
    ff: u64,
    experts: Option<Experts>,
}

fn mul(a: u64, b: u64) -> Result<u64, String> {
    a.checked_mul(b).ok_or_else(|| format!("{a} times {b} cannot be right"))
}

fn fits(weight: &Weight, columns: u64, rows: u64, count: u64) -> Result<(), String> {
    let wanted = [columns, rows, count, 1];
    let found = weight.ne.map(|n| n as u64);
    if found == wanted {
        return Ok(());
    }
    Err(format!("its tensor '{}' has the shape {found:?} where the layout needs {wanted:?}", weight.name))
}
