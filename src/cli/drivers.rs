//! What is known of Vulkan drivers and kernels: the catalogue `drivers.toml`.

use std::sync::LazyLock;

use ggml_tri::probe::vulkan::Device;
use serde::Deserialize;

/// One entry of the catalogue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    driver: Option<String>,
    vendor: Option<u32>,
    below: Option<String>,
    kernel: Option<String>,
    unified: Option<bool>,
    note: String,
    /// For readers, not for the program.
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    known: Vec<Known>,
}

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| toml::from_str(include_str!("drivers.toml")).expect("a test parses the built-in catalogue"));

/// The notes for a device under a kernel of this release (`uname -r`).
pub fn notes(device: &Device, kernel: &str) -> Vec<&'static str> {
    CATALOGUE.known.iter().filter(|known| fits(known, device, kernel)).map(|known| known.note.as_str()).collect()
}

fn fits(known: &Known, device: &Device, kernel: &str) -> bool {
    let begins = |name: &String| device.driver.to_lowercase().starts_with(name);
    // An unknown version fits no limit.
    let older = |limit: &String| version(&device.driver).is_some_and(|v| Some(v) < version(limit));
    let newer = |first: &String| version(kernel).is_some_and(|v| Some(v) >= version(first));
    known.driver.as_ref().is_none_or(begins)
        && known.vendor.is_none_or(|vendor| vendor == device.vendor)
        && known.below.as_ref().is_none_or(older)
        && known.kernel.as_ref().is_none_or(newer)
        && known.unified.is_none_or(|unified| unified == device.unified)
}

/// The first word of a text that is a dotted number, as numbers.
fn version(text: &str) -> Option<Vec<u32>> {
    let word =
        text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))?;
    let number = |part: &str| part.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok());
    Some(word.split('.').map_while(number).collect())
}

#[cfg(test)]
mod tests {
    use super::super::gpu::tests::device;
    use super::*;

    #[test]
    fn the_catalogue_parses_and_each_entry_names_its_source() {
        for known in &CATALOGUE.known {
            assert!(known._source.len() > 20, "{known:?}");
            assert!(known.driver.is_some() || known.vendor.is_some(), "{known:?} fits everything");
            assert!([&known.below, &known.kernel].into_iter().flatten().all(|v| version(v).is_some()), "{known:?}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("radv Mesa 25.0.7-1 (git)"), Some(vec![25, 0, 7]));
        assert_eq!(version("6.12.48+deb13-amd64"), Some(vec![6, 12, 48]));
        assert_eq!(version("radv Mesa"), None);
        assert!(version("9.10.0") < version("10.2"));
    }

    #[test]
    fn a_note_is_for_what_it_names_only() {
        let apu = device("radv Mesa 25.0.7", 0x1002);
        let has = |list: &[&str], word| list.iter().any(|note| note.contains(word));
        let new = notes(&apu, "7.0.3-arch1-1");
        assert!(has(&new, "lockup_timeout") && has(&new, "ttm.pages_limit") && has(&new, "drirc"), "{new:?}");
        assert!(!has(&notes(&apu, "6.12.48"), "lockup_timeout") && !has(&notes(&apu, ""), "lockup_timeout"));
        assert!(notes(&device("NVIDIA 580.159", 0x10de), "7.0").is_empty());
        assert!(has(&notes(&device("llvmpipe Mesa 22.3.6 (LLVM 15.0.6)", 0x10005), "7.0"), "2 GiB"));
        assert!(notes(&device("llvmpipe Mesa 25.0.7 (LLVM 19.1.7)", 0x10005), "7.0").is_empty());
    }
}
