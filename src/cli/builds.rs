//! The builds of the plugin that lie on this machine, and which one a host needs.

use std::fs;
use std::path::{Path, PathBuf};

use super::ggml::{self, Ggml, folder};
use super::stop::Stop;

/// The name under which a build is installed.
pub const INSTALLED: &str = "libggml-tri.so";
/// The name that cargo gives it: a library target cannot have a hyphen.
const BUILT: &str = "libggml_tri.so";
/// The function with which a build tells the ggml version it was made for.
const SYMBOL: &str = "tri_ggml_version";

/// A build of the plugin.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Build {
    /// Its file.
    pub file: PathBuf,
    /// The ggml version that it was made for, as it says itself.
    pub version: String,
}

/// The folder of the builds for all versions, of the installation to which this executable belongs.
pub fn shelf(own: &Path) -> PathBuf {
    folder(own).join("../lib/ggml-tri")
}

/// Asks a file for its version.
///
/// # Errors
/// There is no such file, or it is no build of the plugin.
pub fn open(file: &Path) -> Result<Build, Stop> {
    if !file.is_file() {
        return Err(Stop::failed(format!(
            "The plugin '{}' is not a file: correct TRI_PLUGIN or --plugin, or run 'tri install'.",
            file.display()
        )));
    }
    // A loader searches the library path for a name without a slash, and the host's its own current folder for others.
    let whole = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    match ggml::ask(&whole, SYMBOL) {
        Ok(version) => Ok(Build { file: whole, version }),
        Err(why) => Err(Stop::failed(format!(
            "The plugin {} {why}: it is damaged or no ggml-tri plugin; install it again.",
            file.display()
        ))),
    }
}

/// The files of all builds: one per version of the installation, and last the one that cargo made.
pub fn files(own: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(shelf(own))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join(INSTALLED)))
        .collect();
    files.sort_unstable();
    files.push(folder(own).join(BUILT));
    files.retain(|file| file.is_file());
    files
}

/// The build for a host: the file that the user set, else the one for the host's version, else the one that cargo made.
///
/// # Errors
/// There is none, or it was made for another ggml.
pub fn choose(own: &Path, set: Option<&Path>, host: &Ggml) -> Result<Build, Stop> {
    let made = folder(own).join(BUILT);
    let shelved = shelf(own).join(&host.version).join(INSTALLED);
    let file = match set {
        Some(file) => file,
        None if shelved.is_file() => &shelved,
        None if made.is_file() => &made,
        None => return Err(missing(own, host)),
    };
    let build = open(file)?;
    if build.version == host.version {
        return Ok(build);
    }
    Err(Stop::failed(format!(
        "The plugin {} was built for ggml {}, but {} is ggml {}: make the build for {} ('scripts/plugin {}' in the source of \
         ggml-tri) and install it ('tri install --plugin FILE'), or set TRI_LLAMA_DIR to a llama.cpp with ggml {}.",
        build.file.display(),
        build.version,
        host.base.display(),
        host.version,
        host.version,
        host.version,
        build.version
    )))
}

/// No build at all, or none for this version.
fn missing(own: &Path, host: &Ggml) -> Stop {
    let present: Vec<_> =
        files(own).iter().filter_map(|file| Some(folder(file).file_name()?.to_string_lossy().into_owned())).collect();
    let present = if present.is_empty() { "none".to_owned() } else { present.join(", ") };
    Stop::failed(format!(
        "No plugin build for ggml {} ({}) in {} (there: {present}): make one ('scripts/plugin {}' in \
         the source of ggml-tri) and install it ('tri install --plugin FILE'), or name one in TRI_PLUGIN.",
        host.version,
        host.base.display(),
        shelf(own).display(),
        host.version
    ))
}
