//! Which engine computes which node, as the engines themselves would answer.

use ggml_tri::chip::model::Chip;
use ggml_tri::engine::EngineKind;
use ggml_tri::engine::vulkan::caps::{Caps, MatrixShape, MemoryKind};
use ggml_tri::engine::vulkan::ops;
use ggml_tri::graph::Node;

/// Whether an engine of the chip computes a node; an error says why not.
pub fn accepts(caps: &Caps, engine: EngineKind, node: &Node) -> Result<(), String> {
    match engine {
        EngineKind::Cpu => Ok(()),
        EngineKind::Gpu => ops::supports(node, caps).map_err(|reject| reject.to_string()),
        EngineKind::Npu if node.op == "MUL_MAT" => Ok(()),
        EngineKind::Npu => Err(format!("an NPU computes products, not {}", node.op)),
    }
}

/// What every GPU of the catalogue has; the lowering decides by it whether the shaders take a node.
pub fn caps(chip: &Chip) -> Caps {
    let unified = chip.shared.contains(&EngineKind::Gpu);
    Caps {
        name: chip.processor(EngineKind::Gpu).map(|p| p.name.clone()).unwrap_or_default(),
        driver: String::new(),
        software: false,
        vendor: 0,
        pci: None,
        memory: if unified { MemoryKind::Unified } else { MemoryKind::Visible },
        subgroup: 32,
        dot: true,
        dot_accelerated: true,
        matrix_f16: Some(MatrixShape { m: 16, n: 16, k: 16 }),
        matrix_bf16: None,
        matrix_i8: None,
        shared: 48 << 10,
        invocations: 1024,
        max_allocation: 2 << 30,
        timestamp_ns: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggml_tri::chip::catalog;
    use ggml_tri::graph::shapes::Model;

    #[test]
    fn the_gpu_computes_the_presets_whole_and_the_npu_their_products() {
        let chip = catalog::find("hx 370").unwrap().chip();
        let caps = caps(&chip);
        for model in Model::presets() {
            for width in [1, 16, 512] {
                for node in model.graph(width, 600).nodes {
                    assert_eq!(accepts(&caps, EngineKind::Gpu, &node), Ok(()), "{} {}", model.name, node.op);
                    assert_eq!(accepts(&caps, EngineKind::Npu, &node).is_ok(), node.op == "MUL_MAT");
                }
            }
        }
    }
}
