use super::*;
use crate::graph::Node;
use std::collections::{HashMap, HashSet};

fn ops(nodes: &[Node]) -> Vec<&'static str> {
    nodes.iter().map(|n| n.op).collect()
}

#[test]
fn there_are_as_many_nodes_as_llama_cpp_has() {
    // llama.cpp (ggml 0.26.0) has 939 and 730 for these two, GET_ROWS of the tokens and the three nodes of a batch that is
    // partly embeddings included; those are not TRI0's.
    assert_eq!(Model::smollm2_135m().graph(1, 256).nodes.len(), 939 - 4);
    assert_eq!(Model::gemma_270m().graph(1, 256).nodes.len(), 730 - 4);
}

#[test]
fn a_layer_has_the_order_of_llama_cpp() {
    let graph = Model::llama_1b().graph(1, 256);
    let layer = [
        "RMS_NORM",
        "MUL",
        "MUL_MAT",
        "RESHAPE",
        "ROPE",
        "MUL_MAT",
        "RESHAPE",
        "MUL_MAT",
        "RESHAPE",
        "ROPE",
        "VIEW",
        "SET_ROWS",
        "VIEW",
        "SET_ROWS",
        "VIEW",
        "PERMUTE",
        "VIEW",
        "PERMUTE",
        "VIEW",
        "PERMUTE",
        "FLASH_ATTN_EXT",
        "RESHAPE",
        "MUL_MAT",
        "ADD",
        "RMS_NORM",
        "MUL",
        "MUL_MAT",
        "MUL_MAT",
        "GLU",
        "MUL_MAT",
        "ADD",
    ];
    assert_eq!(ops(&graph.nodes[..layer.len()]), layer);
    assert_eq!(ops(&graph.nodes[layer.len()..2 * layer.len()]), layer);
    // V is computed before K: llama.cpp asks for Q, V, K.
    assert_eq!(graph.nodes[5].src[0].unwrap().ty, Type::Q6_K);
}

#[test]
fn every_source_was_computed_before_or_is_a_leaf_and_uses_are_counted() {
    for model in Model::presets() {
        for width in [1, 5, 512] {
            let graph = model.graph(width, 512);
            let ids: HashSet<_> = graph.nodes.iter().map(|n| n.dst.id).collect();
            assert_eq!(ids.len(), graph.nodes.len(), "{}", model.name);
            let (mut done, mut uses) = (HashSet::new(), HashMap::new());
            for node in &graph.nodes {
                for source in node.sources() {
                    assert!(!ids.contains(&source.id) || done.contains(&source.id), "{}: {}", model.name, node.op);
                    *uses.entry(source.id).or_insert(0) += 1;
                }
                done.insert(node.dst.id);
                let view = ["VIEW", "RESHAPE", "PERMUTE"].contains(&node.op);
                assert_eq!(node.compute, !view);
                assert_eq!(node.dst.root != node.dst.id, view || node.op == "SET_ROWS", "{}", node.op);
            }
            for node in &graph.nodes {
                assert_eq!(node.uses, Some(uses.get(&node.dst.id).copied().unwrap_or(0)), "{}", node.op);
            }
            let outputs: Vec<_> = graph.nodes.iter().filter(|n| n.output).collect();
            assert_eq!(outputs.len(), 1);
            let rows = if width == 512 { 1 } else { width as i64 };
            assert_eq!(outputs[0].dst.ne, [model.vocabulary as i64, rows, 1, 1]);
        }
    }
}

#[test]
fn weights_keep_their_ids_over_widths_and_models_share_none() {
    let weights = |model: &Model, width| -> Vec<u64> {
        model
            .graph(width, 512)
            .nodes
            .iter()
            .filter(|n| n.op.starts_with("MUL_MAT"))
            .map(|n| n.src[0].unwrap().id)
            .collect()
    };
    let models = Model::presets();
    for model in &models {
        assert_eq!(weights(model, 1), weights(model, 512));
        let [a, b, c] = [(1, 256), (2, 256), (1, 257)].map(|(w, kv)| model.graph(w, kv).uid);
        assert!(a != 0 && a != b && a != c);
    }
    let all: Vec<_> = models.iter().flat_map(|m| weights(m, 1)).collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
}

#[test]
fn a_token_reads_as_many_bytes_as_the_files_weights_have() {
    let bytes = |model: &Model| -> f64 {
        let graph = model.graph(1, 256);
        graph.nodes.iter().filter(|n| n.op == "MUL_MAT").map(|n| n.src[0].unwrap().span() as f64).sum()
    };
    // docs/measurements.md: 0.800 and 4.617 GB of the same shapes, where all norms are counted too.
    assert!((bytes(&Model::llama_1b()) / 0.800e9 - 1.0).abs() < 0.01, "{}", bytes(&Model::llama_1b()));
    assert!((bytes(&Model::llama_8b()) / 4.617e9 - 1.0).abs() < 0.01, "{}", bytes(&Model::llama_8b()));
}

#[test]
fn a_mixture_chooses_its_experts_before_it_uses_them() {
    let graph = Model::qwen3_30b_a3b().graph(3, 256);
    let at = graph.nodes.iter().position(|n| n.op == "SOFT_MAX").unwrap();
    let expected = [
        "SOFT_MAX",
        "RESHAPE",
        "ARGSORT",
        "VIEW",
        "GET_ROWS",
        "RESHAPE",
        "SUM_ROWS",
        "CLAMP",
        "DIV",
        "RESHAPE",
        "RESHAPE",
        "MUL_MAT_ID",
        "MUL_MAT_ID",
        "GLU",
        "MUL_MAT_ID",
        "MUL",
    ];
    assert_eq!(ops(&graph.nodes[at..at + expected.len()]), expected);
    let gate = &graph.nodes[at + 11];
    assert_eq!((gate.dst.ne, gate.src[2].unwrap().ne[0]), ([768, 8, 3, 1], 8));
    assert_eq!(graph.nodes[at + 16].op, "VIEW");
    assert_eq!(graph.nodes[at + 24].op, "ADD");
}
