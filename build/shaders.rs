//! Compiles the shaders.

use super::{fail, read};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

/// Answers `#include "name"` from `shaders/lib`.
struct Includes;

impl glslang::include::IncludeHandler for Includes {
    fn include(
        &mut self,
        _: glslang::include::IncludeType,
        name: &str,
        _: &str,
        _: usize,
    ) -> Option<glslang::include::IncludeResult> {
        let data = fs::read_to_string(Path::new("shaders/lib").join(name)).ok()?;
        Some(glslang::include::IncludeResult { name: name.to_owned(), data })
    }
}

/// Compiles `shaders/*.comp` to SPIR-V, each once for every `// variant NAME [DEFINE[=VALUE]]...` line in it, and writes
/// a table of the modules for `engine::vulkan`. `TRI_SHADER_CHECK=1` adds the address checks of `shaders/lib/memory.glsl`.
pub fn compile(out: &Path) {
    println!("cargo:rerun-if-changed=shaders");
    println!("cargo:rerun-if-env-changed=TRI_SHADER_CHECK");
    let check = env::var_os("TRI_SHADER_CHECK").is_some_and(|v| v == "1");
    let mut jobs = Vec::new();
    let mut files: Vec<_> = fs::read_dir("shaders").expect("shaders/ is there").flatten().map(|e| e.path()).collect();
    files.sort();
    for path in files.iter().filter(|p| p.extension().is_some_and(|e| e == "comp")) {
        let text = read(path);
        let before = jobs.len();
        for line in text.lines().filter_map(|l| l.strip_prefix("// variant ")) {
            let mut words = line.split_whitespace().map(str::to_owned);
            let name = words.next().unwrap_or_else(|| fail(&format!("{}: a variant without a name", path.display())));
            let mut defines: Vec<String> = words.collect();
            if check {
                defines.push("TRI_CHECK".to_owned());
            }
            jobs.push((name, path.clone(), text.clone(), defines));
        }
        assert!(jobs.len() > before, "{} has no '// variant NAME' line", path.display());
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let mut table = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    while let Some((name, path, text, defines)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let words = compile_shader(path, text, defines);
                        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                        fs::write(out.join(format!("{name}.spv")), bytes).expect("OUT_DIR is writable");
                        done.push(name.as_str());
                    }
                    done
                })
            })
            .collect();
        workers.into_iter().flat_map(|w| w.join().expect("a shader does not compile; see above")).collect::<Vec<_>>()
    });
    table.sort_unstable();
    if let Some(twice) = table.windows(2).find(|w| w[0] == w[1]) {
        fail(&format!("two shader variants are called {}", twice[0]));
    }
    let mut rust = String::from("pub static MODULES: &[(&str, &[u8])] = &[\n");
    for name in table {
        rust += &format!("    (\"{name}\", include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.spv\"))),\n");
    }
    rust += &format!("];\npub const CHECKED: bool = {check};\n");
    fs::write(out.join("shaders.rs"), rust).expect("OUT_DIR is writable");
}

fn compile_shader(path: &Path, text: &str, defines: &[String]) -> Vec<u32> {
    let compiler = glslang::Compiler::acquire().expect("glslang starts");
    let options = glslang::CompilerOptions {
        source_language: glslang::SourceLanguage::GLSL,
        target: glslang::Target::Vulkan {
            version: glslang::VulkanVersion::Vulkan1_3,
            spirv_version: glslang::SpirvVersion::SPIRV1_6,
        },
        ..Default::default()
    };
    let defines: Vec<(&str, Option<&str>)> =
        defines.iter().map(|d| d.split_once('=').map_or((d.as_str(), Some("1")), |(k, v)| (k, Some(v)))).collect();
    let mut includes = Includes;
    let source = glslang::ShaderSource::from(text);
    let compiled = glslang::ShaderInput::new(
        &source,
        glslang::ShaderStage::Compute,
        &options,
        Some(&defines),
        Some(&mut includes),
    )
    .and_then(|input| compiler.create_shader(input))
    .and_then(|shader| shader.compile());
    compiled.unwrap_or_else(|error| fail(&format!("{} with {defines:?}: {error}", path.display())))
}
