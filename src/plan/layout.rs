//! In which layout a weight is held for the CPU engine.

use crate::config::Layout;
use serde::Deserialize;
use std::sync::LazyLock;

/// One measured exception of `layouts.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    isa: String,
    r#type: String,
    /// Chip, numbers and command; for readers, not for the program.
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    plain: Vec<Exception>,
}

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| toml::from_str(include_str!("layouts.toml")).expect("a test parses the built-in catalogue"));

/// Whether a weight of `weight_type`, for which ggml-cpu has a repacked layout, is held in it.
///
/// `isa` are the instruction sets that the host's ggml-cpu uses. A function of its arguments alone: the same weight
/// gets the same answer when llama.cpp's memory fit asks and when its loader asks. The two layouts round differently,
/// so `Stock` gives the text of stock llama.cpp to the last token, and `Plain` that of its `--no-repack`.
pub fn hold_repacked(wish: Layout, isa: &[&str], weight_type: &str) -> bool {
    match wish {
        Layout::Stock | Layout::Convert => true,
        Layout::Plain => false,
        Layout::Auto => !excepted(&CATALOGUE, isa, weight_type),
    }
}

fn excepted(catalogue: &Catalogue, isa: &[&str], weight_type: &str) -> bool {
    catalogue.plain.iter().any(|e| isa.contains(&e.isa.as_str()) && e.r#type == weight_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_parses_and_each_entry_names_its_measurement() {
        for entry in &CATALOGUE.plain {
            assert!(entry._source.len() > 20, "{entry:?}");
        }
    }

    #[test]
    fn an_exception_holds_for_its_type_on_its_instruction_set_only() {
        let text = "[[plain]]\nisa = 'AVX2'\ntype = 'q4_K'\nsource = 'a test'";
        let catalogue: Catalogue = toml::from_str(text).unwrap();
        assert!(excepted(&catalogue, &["AVX2"], "q4_K"));
        assert!(!excepted(&catalogue, &["AVX2"], "q4_0"));
        assert!(excepted(&catalogue, &["AVX512", "AVX2"], "q4_K"));
        assert!(!excepted(&catalogue, &["AVX512"], "q4_K"));
        assert!(!excepted(&catalogue, &[], "q4_K"));
    }

    #[test]
    fn a_wish_overrides_the_catalogue() {
        assert!(hold_repacked(Layout::Stock, &["AVX2"], "q4_K"));
        assert!(!hold_repacked(Layout::Plain, &["AVX2"], "q4_0"));
        assert!(hold_repacked(Layout::Auto, &[], "q4_0"));
    }
}
