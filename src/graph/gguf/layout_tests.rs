//! Which files can be planned, and what is said of the others.

use super::Gguf;
use super::layout::*;
use super::testing::{F32, Q4_K, Q6_K, Writer, llama};
use crate::graph::Type;
use crate::graph::shapes::{Experts, Layer, Model, Style, Window};
use proptest::prelude::*;

fn described(file: Writer) -> Result<Described, String> {
    let (bytes, length) = file.finish();
    describe(&Gguf::parse(&bytes, length).unwrap())
}

fn why(file: Writer) -> String {
    described(file).unwrap_err()
}

#[test]
fn a_llama_has_the_shapes_of_its_tensors() {
    let Described { model, notes } = described(llama("llama", 2)).unwrap();
    let (q4, q6) = (Type::Q4_K, Type::Q6_K);
    let layer = Layer { q: q4, k: q4, v: q6, o: q4, gate: q4, up: q4, down: q6 };
    let expected = Model {
        name: "a small <test> model".to_owned(),
        style: Style::Llama,
        layers: vec![layer; 2],
        embedding: 512,
        heads: 8,
        kv_heads: 2,
        head: 64,
        ff: 1024,
        experts: None,
        window: None,
        vocabulary: 1000,
        output: q6,
        rope_factors: false,
    };
    assert_eq!((model, notes), (expected, vec![]));
}

#[test]
fn an_unknown_architecture_with_known_tensors_is_planned_with_a_note() {
    let Described { model, notes } = described(llama("new-thing", 1)).unwrap();
    assert_eq!((model.style, model.layers.len()), (Style::Llama, 1));
    assert!(notes.len() == 1 && notes[0].contains("'new-thing' is not known"), "{notes:?}");
    let normed = llama("new-thing", 1).weight("blk.0.attn_q_norm.weight", F32, &[64]);
    assert_eq!(described(normed).unwrap().model.style, Style::Qwen3);
}

#[test]
fn a_matrix_without_a_place_is_refused_with_its_name() {
    let mamba = llama("mamba", 1).weight("blk.0.ssm_in.weight", Q4_K, &[512, 2048]);
    let expected = "A model of the architecture 'mamba' cannot be planned: its tensor 'blk.0.ssm_in.weight' has no place \
                    in the llama-like layout.";
    assert_eq!(why(mamba), expected);
    // Vectors and biases cost next to nothing.
    let odd = llama("llama", 1).weight("blk.0.attn_sinks.weight", F32, &[8]).weight("blk.0.x.bias", F32, &[8, 8]);
    assert!(described(odd).is_ok());
    assert!(why(llama("t5", 0).weight("enc.blk.0.attn_q.weight", F32, &[4, 4])).contains("encoder"));
}

#[test]
fn numbers_that_contradict_the_tensors_are_refused() {
    let empty = || Writer::default().text("general.architecture", "llama");
    assert_eq!(why(Writer::default()), "The file names no architecture.");
    assert!(why(empty()).contains("the file has no 'llama.block_count'"));
    assert!(why(empty().number("llama.block_count", u32::MAX)).contains("4294967295 layers"));
    let sizes = |embedding, heads, kv| {
        let file = empty().number("llama.block_count", 1).number("llama.embedding_length", embedding);
        file.number("llama.attention.head_count", heads).number("llama.attention.head_count_kv", kv)
    };
    for (embedding, heads, kv) in [(0, 8, 8), (512, 0, 0), (512, 8, 3)] {
        assert!(why(sizes(embedding, heads, kv)).contains("cannot be right"));
    }
    let sized = sizes(512, 8, 8).number("llama.feed_forward_length", 1024);
    assert!(why(sized).contains("no tensor 'blk.0.attn_q.weight'"));
    let heads = llama("llama", 1).number("llama.attention.key_length", 32);
    assert!(
        why(heads)
            .contains("'blk.0.attn_q.weight' has the shape [512, 512, 1, 1] where the layout needs [512, 256, 1, 1]")
    );
    assert!(
        why(llama("llama", 1).number("llama.attention.value_length", 32)).contains("64 numbers for K and 32 for V")
    );
    let zero = [&4_u32.to_le_bytes()[..], &2_u64.to_le_bytes(), &1_u32.to_le_bytes(), &2_u32.to_le_bytes()].concat();
    assert!(why(empty().raw("llama.block_count", 9, &zero)).contains("differ in 'block_count'"));
}

#[test]
fn experts_and_joined_matrices_are_read() {
    let sizes = |file: Writer| {
        let file =
            file.text("general.architecture", "moe").number("moe.block_count", 1).number("moe.embedding_length", 256);
        let file = file.number("moe.attention.head_count", 4).number("moe.feed_forward_length", 512);
        file.weight("token_embd.weight", Q6_K, &[256, 10]).weight("blk.0.attn_output.weight", Q4_K, &[256, 256])
    };
    let experts = |count: u32, used: u32| {
        let file = sizes(Writer::default()).number("moe.expert_count", count).number("moe.expert_used_count", used);
        let file =
            file.weight("blk.0.attn_qkv.weight", Q4_K, &[256, 768]).weight("blk.0.ffn_gate_inp.weight", F32, &[256, 8]);
        let file = file.weight("blk.0.ffn_gate_exps.weight", Q4_K, &[256, 512, 8]);
        file.weight("blk.0.ffn_up_exps.weight", Q4_K, &[256, 512, 8]).weight(
            "blk.0.ffn_down_exps.weight",
            Q6_K,
            &[512, 256, 8],
        )
    };
    let Described { model, notes } = described(experts(8, 2)).unwrap();
    assert_eq!((model.experts, model.kv_heads), (Some(Experts { count: 8, used: 2 }), 4));
    assert_eq!((model.layers[0].q, model.layers[0].down), (Type::Q4_K, Type::Q6_K));
    assert!(notes.iter().any(|note| note.contains("planned as three")), "{notes:?}");
    assert!(why(experts(8, 9)).contains("9 of 8 experts"));
    assert!(why(experts(4, 2)).contains("[256, 8, 1, 1] where the layout needs [256, 4, 1, 1]"));
    let joined = sizes(Writer::default()).weight("blk.0.attn_qkv.weight", Q4_K, &[256, 768]);
    let joined =
        joined.weight("blk.0.ffn_up.weight", Q4_K, &[256, 1024]).weight("blk.0.ffn_down.weight", Q6_K, &[512, 256]);
    assert_eq!(described(joined).unwrap().model.layers[0].gate, Type::Q4_K);
}

#[test]
fn a_window_is_planned_where_the_layout_has_one() {
    let windowed =
        |architecture: &str| llama(architecture, 1).number(&format!("{architecture}.attention.sliding_window"), 512);
    let gemma = described(windowed("gemma3")).unwrap();
    assert_eq!((gemma.model.window, gemma.notes.len()), (Some(Window { tokens: 512, period: 6 }), 0));
    let other = described(windowed("llama")).unwrap();
    assert!(other.model.window.is_none() && other.notes[0].contains("last 512 tokens only"), "{:?}", other.notes);
}

proptest! {
    #[test]
    fn turned_bytes_give_a_graph_or_a_sentence(turned in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let (mut bytes, length) = llama("llama", 1).finish();
        for (at, byte) in turned {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        if let Ok(Ok(described)) = Gguf::parse(&bytes, length).map(|gguf| describe(&gguf)) {
            let graph = described.model.graph(1, 256);
            prop_assert!(graph.nodes.iter().all(|n| n.dst.elements() >= 0));
        }
    }
}
