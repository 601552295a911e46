//! The list of settings as the user sees it: `tri doctor --env`, and the page made from the same list.

use ggml_tri::config::host::Host;
use ggml_tri::config::{VARIABLES, Variable};

/// A variable and what it holds now.
#[derive(Debug, serde::Serialize)]
pub struct Setting {
    name: &'static str,
    /// What it is set to; nothing if it is unset.
    value: Option<String>,
    default: &'static str,
    allowed: &'static str,
    meaning: &'static str,
}

/// Every setting with its present value.
pub fn all(host: &Host) -> Vec<Setting> {
    let setting = |v: &Variable| Setting {
        name: v.name,
        value: host.var(v.name).map(|value| value.to_string_lossy().into_owned()),
        default: v.default,
        allowed: v.allowed,
        meaning: v.meaning,
    };
    VARIABLES.iter().map(setting).collect()
}

/// The settings for a terminal: one paragraph each.
pub fn text(host: &Host) -> String {
    let paragraph = |s: &Setting| {
        let value = s.value.as_deref().unwrap_or("(unset)");
        format!("{}\n  now      {value}\n  default  {}\n  allowed  {}\n  {}\n", s.name, s.default, s.allowed, s.meaning)
    };
    all(host).iter().map(paragraph).collect::<Vec<_>>().join("\n")
}

/// The page `docs/settings.md`; it holds no present value.
pub fn markdown() -> String {
    let row = |v: &Variable| {
        let cell = |text: &str| text.replace('|', "\\|");
        format!("| `{}` | {} | {} | {} |\n", v.name, cell(v.allowed), cell(v.default), cell(v.meaning))
    };
    let rows: String = VARIABLES.iter().map(row).collect();
    format!(
        "# Settings\n\n\
         ggml-tri reads these environment variables, once, when the plugin is loaded or `tri` starts. An empty value counts \
         as unset. A value that is not allowed is refused with the name, the value and what is allowed.\n\n\
         This page is made by `tri doctor --env --markdown > docs/settings.md`; do not edit it.\n\n\
         | variable | allowed | default | meaning |\n|---|---|---|---|\n{rows}"
    )
}
