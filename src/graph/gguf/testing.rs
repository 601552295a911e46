//! Writes GGUF files for tests; nothing of it is in the program. It uses no code of the crate, so that the tests of the
//! command line can include it as a file.

/// A tensor type: its number in GGUF, elements and bytes of a block.
pub type Stored = (u32, u64, u64);
/// Plain floats.
pub const F32: Stored = (0, 1, 4);
/// 4-bit blocks of 256.
pub const Q4_K: Stored = (12, 256, 144);
/// 6-bit blocks of 256.
pub const Q6_K: Stored = (14, 256, 210);

/// A file in the making.
#[derive(Default)]
pub struct Writer {
    values: (u64, Vec<u8>),
    weights: (u64, Vec<u8>),
    data: u64,
}

impl Writer {
    fn text_of(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    /// Adds a value whose type and bytes are given.
    pub fn raw(mut self, key: &str, code: u32, bytes: &[u8]) -> Writer {
        self.values.0 += 1;
        self.values.1.extend([&Writer::text_of(key), &code.to_le_bytes()[..], bytes].concat());
        self
    }

    /// Adds a text.
    pub fn text(self, key: &str, text: &str) -> Writer {
        self.raw(key, 8, &Writer::text_of(text))
    }

    /// Adds a number of 32 bits.
    pub fn number(self, key: &str, number: u32) -> Writer {
        self.raw(key, 4, &number.to_le_bytes())
    }

    /// Adds an array of texts.
    pub fn texts(self, key: &str, texts: &[&str]) -> Writer {
        let all: Vec<u8> = texts.iter().flat_map(|text| Writer::text_of(text)).collect();
        self.raw(key, 9, &[&8_u32.to_le_bytes()[..], &(texts.len() as u64).to_le_bytes(), &all].concat())
    }

    /// Adds a tensor, its bytes behind those of the one before.
    pub fn weight(mut self, name: &str, ty: Stored, ne: &[u64]) -> Writer {
        let (code, block, bytes) = ty;
        self.weights.0 += 1;
        let entry = &mut self.weights.1;
        entry.extend(Writer::text_of(name));
        entry.extend((ne.len() as u32).to_le_bytes());
        ne.iter().for_each(|n| entry.extend(n.to_le_bytes()));
        entry.extend(code.to_le_bytes());
        entry.extend(self.data.to_le_bytes());
        self.data = (self.data + ne.iter().product::<u64>() / block * bytes).next_multiple_of(32);
        self
    }

    /// The description as bytes, and the length of the whole file: the weights are left to a hole at its end.
    pub fn finish(self) -> (Vec<u8>, u64) {
        let counts = [self.weights.0.to_le_bytes(), self.values.0.to_le_bytes()].concat();
        let mut bytes = [b"GGUF", &3_u32.to_le_bytes()[..], &counts, &self.values.1, &self.weights.1].concat();
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        let length = bytes.len() as u64 + self.data;
        (bytes, length)
    }
}

/// A llama of a few layers: 512 wide, 8 heads of 64, 2 heads of K and V, 1024 hidden, 1000 words.
pub fn llama(architecture: &str, layers: u32) -> Writer {
    let key = |name: &str| format!("{architecture}.{name}");
    let mut file = Writer::default()
        .text("general.architecture", architecture)
        .text("general.name", "a small <test> model")
        .number(&key("block_count"), layers)
        .number(&key("context_length"), 2048)
        .number(&key("embedding_length"), 512)
        .number(&key("feed_forward_length"), 1024)
        .number(&key("attention.head_count"), 8)
        .number(&key("attention.head_count_kv"), 2)
        .texts("tokenizer.ggml.tokens", &["a", "b", "c"])
        .weight("token_embd.weight", Q6_K, &[512, 1000])
        .weight("output_norm.weight", F32, &[512]);
    for layer in 0..layers {
        let name = |name: &str| format!("blk.{layer}.{name}.weight");
        file = file
            .weight(&name("attn_norm"), F32, &[512])
            .weight(&name("attn_q"), Q4_K, &[512, 512])
            .weight(&name("attn_k"), Q4_K, &[512, 128])
            .weight(&name("attn_v"), Q6_K, &[512, 128])
            .weight(&name("attn_output"), Q4_K, &[512, 512])
            .weight(&name("ffn_norm"), F32, &[512])
            .weight(&name("ffn_gate"), Q4_K, &[512, 1024])
            .weight(&name("ffn_up"), Q4_K, &[512, 1024])
            .weight(&name("ffn_down"), Q6_K, &[1024, 512]);
    }
    file
}
