//! What the nodes of a model's graph are called: the names that their weights have in the file.

use std::collections::BTreeMap;

use ggml_tri::graph::shapes::Model;
use ggml_tri::graph::{Graph, Node, Tensor, Type};

/// A node that stands in the table by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// `ffn_down`, `attention`, `output`, ...
    pub name: &'static str,
    /// The layer; `None` for what comes after all of them.
    pub layer: Option<usize>,
}

/// A weight by its place: layer, name, rows, columns, type.
type Expected = (Option<usize>, &'static str, u64, u64, Type);

/// The site of each node, by its index; none for norms, sums and the like.
pub fn sites(model: &Model, graph: &Graph) -> Vec<Option<Site>> {
    let product = |node: &Node| matches!(node.op, "MUL_MAT" | "MUL_MAT_ID");
    // The ids of weights rise in the order in which the graph's maker names them.
    let weights: BTreeMap<u64, Tensor> =
        graph.nodes.iter().filter(|n| product(n)).filter_map(|n| n.src[0]).map(|w| (w.id, w)).collect();
    let expected = expected(model);
    let fits = |(w, e): (&Tensor, &Expected)| w.ne[1] as u64 == e.2 && w.ne[0] as u64 == e.3 && w.ty == e.4;
    let all = weights.len() == expected.len() && weights.values().zip(&expected).all(fits);
    let named: BTreeMap<u64, Site> =
        weights.keys().copied().zip(expected.iter().map(|e| Site { name: e.1, layer: e.0 })).collect();
    let mut attentions = 0..;
    let site = |node: &Node| match node.op {
        "FLASH_ATTN_EXT" => Some(Site { name: "attention", layer: attentions.next() }),
        // A graph of another maker: better no name than a wrong one.
        _ if product(node) && !all => Some(Site { name: "product", layer: None }),
        _ if product(node) => named.get(&node.src[0]?.id).copied(),
        _ => None,
    };
    graph.nodes.iter().map(site).collect()
}

/// The weights of products in the order in which `graph::shapes` makes them.
fn expected(model: &Model) -> Vec<Expected> {
    let m = model;
    let (e, ff, q, kv) = (m.embedding, m.ff, m.heads * m.head, m.kv_heads * m.head);
    let mut all = Vec::new();
    for (i, layer) in m.layers.iter().enumerate() {
        let mut add = |name, rows, columns, ty| all.push((Some(i), name, rows, columns, ty));
        add("attn_q", q, e, layer.q);
        add("attn_k", kv, e, layer.k);
        add("attn_v", kv, e, layer.v);
        add("attn_output", e, q, layer.o);
        if let Some(experts) = m.experts {
            add("ffn_gate_inp", experts.count, e, Type::F32);
            add("ffn_up_exps", ff, e, layer.up);
            add("ffn_gate_exps", ff, e, layer.gate);
            add("ffn_down_exps", e, ff, layer.down);
        } else {
            add("ffn_gate", ff, e, layer.gate);
            add("ffn_up", ff, e, layer.up);
            add("ffn_down", e, ff, layer.down);
        }
    }
    all.push((None, "output", m.vocabulary, m.embedding, m.output));
    all
}

/// Numbers in ascending order as ranges: `0-3, 5, 7-9`.
pub fn ranges(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &n in numbers {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == n => run.1 = n,
            _ => runs.push((n, n)),
        }
    }
    let text = |&(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_of_every_preset_has_its_name() {
        for model in Model::presets() {
            for width in [1, 64] {
                let graph = model.graph(width, 300);
                let sites = sites(&model, &graph);
                let count = |name| sites.iter().flatten().filter(|site| site.name == name).count();
                let names = if model.experts.is_some() { "ffn_down_exps" } else { "ffn_down" };
                let layers = model.layers.len();
                assert_eq!([count("attn_q"), count("attention"), count(names)], [layers; 3], "{}", model.name);
                assert_eq!((count("output"), count("product")), (1, 0), "{}", model.name);
                let down = graph.nodes.iter().zip(&sites).find(|(_, s)| s.is_some_and(|s| s.name == names)).unwrap().0;
                assert_eq!(down.src[0].unwrap().ne[1] as u64, model.embedding);
            }
        }
    }

    #[test]
    fn a_graph_of_another_model_gets_no_wrong_name() {
        let graph = Model::llama_1b().graph(1, 256);
        let sites = sites(&Model::llama_8b(), &graph);
        assert!(sites.iter().flatten().all(|site| ["product", "attention"].contains(&site.name)));
    }

    #[test]
    fn layers_are_folded_to_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 5, 7, 8]), "0-3, 5, 7-8");
        assert_eq!(ranges(&[]), "");
    }
}
