//! Compiles the shaders, compiles the shim against the ggml headers, and writes the version and names that the plugin compares at load.
#![allow(missing_docs)]

#[path = "build/shaders.rs"]
mod shaders;

use std::path::{Path, PathBuf};
use std::{env, fs, process};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=ggml-shim");
    println!("cargo:rerun-if-env-changed=TRI_LLAMA_SRC");
    let ggml = llama_tree().join("ggml");
    println!("cargo:rerun-if-changed={}", ggml.join("include").display());
    let header = read(&ggml.join("include/ggml.h"));
    let version = version(&read(&ggml.join("CMakeLists.txt")));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let names = names("tri_built_ops", &header, "enum ggml_op {", "GGML_OP_")
        + &names("tri_built_types", &header, "enum ggml_type {", "GGML_TYPE_");
    fs::write(out.join("ggml_names.h"), names).expect("OUT_DIR is writable");
    shaders::compile(&out);
    cc::Build::new()
        .files(
            ["host", "cpu", "flatten", "layouts", "exchange", "plain", "repacked", "gpu", "device"]
                .map(|name| format!("ggml-shim/{name}.c")),
        )
        .includes([out, PathBuf::from("ggml-shim")])
        // System headers: their warnings are not ours to mend.
        .flag("-isystem")
        .flag(ggml.join("include"))
        .flag("-isystem")
        .flag(ggml.join("src"))
        .define("_GNU_SOURCE", None)
        .define("TRI_BUILT_VERSION", format!("\"{version}\"").as_str())
        .std("c11")
        .flag("-fvisibility=hidden")
        .flag("-Wno-unused-parameter")
        .compile("tri_shim");
    println!("cargo:rustc-env=TRI_GGML_VERSION={version}");
    // ggml_backend_unload closes the library. It stays in memory all the same: its statics, and what they own, live on
    // for a later load, and the logger that it gave to `log` is never left dangling.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

/// The llama.cpp tree whose headers are used: `TRI_LLAMA_SRC`, else the one inside the locked llama-cpp-sys-2 package.
fn llama_tree() -> PathBuf {
    if let Some(dir) = env::var_os("TRI_LLAMA_SRC").filter(|d| !d.is_empty()) {
        return PathBuf::from(dir);
    }
    // The second attempt may download: a plain `cargo build` fetches only what it compiles.
    let output = cargo_metadata(&["--offline"]).or_else(|_| cargo_metadata(&[])).unwrap_or_else(|error| {
        fail(&format!(
            "cargo metadata cannot name the ggml headers; run `cargo fetch --locked` once, or set TRI_LLAMA_SRC to a \
             llama.cpp tree. It said: {error}"
        ))
    });
    let metadata: serde_json::Value = serde_json::from_slice(&output).expect("cargo metadata prints JSON");
    metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|p| p["name"] == "llama-cpp-sys-2")
        .and_then(|p| Path::new(p["manifest_path"].as_str()?).parent())
        .map(|dir| dir.join("llama.cpp"))
        .unwrap_or_else(|| fail("the package llama-cpp-sys-2 is not in Cargo.lock; it carries the ggml headers"))
}

fn cargo_metadata(options: &[&str]) -> Result<Vec<u8>, String> {
    let output = process::Command::new(env::var_os("CARGO").expect("cargo sets CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .args(options)
        .current_dir(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|e| e.to_string())?;
    if output.status.success() { Ok(output.stdout) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| {
        fail(&format!("{}: {e}; TRI_LLAMA_SRC must be the root of a llama.cpp tree", path.display()))
    })
}

/// `major.minor.patch` out of ggml's CMakeLists.txt.
fn version(cmake: &str) -> String {
    let part = |name: &str| {
        cmake
            .lines()
            .find_map(|l| l.trim().strip_prefix(&format!("set(GGML_VERSION_{name} "))?.strip_suffix(')'))
            .unwrap_or_else(|| {
                fail(&format!("ggml/CMakeLists.txt sets no GGML_VERSION_{name}; ggml 0.25 or newer is needed"))
            })
            .trim()
            .to_owned()
    };
    format!("{}.{}.{}", part("MAJOR"), part("MINOR"), part("PATCH"))
}

/// A C table of the enumerators of one enum, each with its name after the prefix; the C compiler supplies the values.
fn names(table: &str, header: &str, start: &str, prefix: &str) -> String {
    let body = header.split_once(start).and_then(|(_, rest)| rest.split_once('}')).map(|(body, _)| body);
    let body = body.unwrap_or_else(|| fail(&format!("ggml.h has no '{start}'")));
    let mut out = format!("static const struct tri_name {table}[] = {{\n");
    for line in body.lines() {
        let code = line.split("//").next().unwrap_or("").trim();
        let word = code.split([',', ' ', '=']).next().unwrap_or("");
        if let Some(name) = word.strip_prefix(prefix).filter(|n| *n != "COUNT") {
            out += &format!("    {{ {word}, \"{name}\" }},\n");
        }
    }
    out + "};\n"
}

fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo:warning={line}");
    }
    process::exit(1)
}
