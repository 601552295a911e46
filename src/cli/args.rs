//! The command line of `tri` itself.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ggml_tri::plan::Objective;

const EXAMPLES: &str = "\
Examples:
  tri doctor                                         what is here, what fits, what to do
  tri run llama-server --backend tri -m model.gguf   a stock llama-server on device TRI0
  tri run llama-bench --backend cpu -m model.gguf    the same tool on the CPU backend
  tri profile show                                   what TRI0 learned about this chip
  tri plan model.gguf --chip 'Ryzen AI 9 HX 370'     who would compute what, how fast, and why
  tri install                                        afterwards: llama-server --backend tri -m model.gguf

Called by another name (a link named llama-server, say) this executable is the launcher for that tool.
Settings are environment variables; 'tri doctor --env' lists them.";

const RUN: &str = "\
--backend NAME is taken out of the arguments, wherever it stands; the last one counts:
  tri          loads the plugin and adds '--device TRI0' unless you name devices yourself
  cpu          the CPU backend alone
  vulkan, cuda, rocm, sycl, rpc, ...   the host's devices of that backend
Without --backend nothing at all is changed. A word that is exactly '--backend' is always taken for ours.

The tool is the next one on PATH that is not tri, or the one in TRI_LLAMA_DIR. tri becomes that process: same process
id, same signals, same exit code. Exit codes of tri itself, before that: 1 plugin and host do not fit or there is no
such device, 2 wrong arguments or setting, 126 the tool cannot be started, 127 it was not found.

Examples:
  tri run llama-server --backend tri -m model.gguf --port 8080
  tri run llama-cli --backend tri -m model.gguf -md draft.gguf
  tri run ggml-rpc-server --backend tri
  TRI_LLAMA_DIR=/opt/llama.cpp/build/bin tri run llama-bench --backend=tri -m model.gguf";

const INSTALL: &str = "\
Puts bin/tri, lib/ggml-tri/VERSION/libggml-tri.so and links bin/llama-server, bin/llama-cli, ... under the prefix, and
a record of them in lib/ggml-tri/installed.json. A file that is not on record, or was changed since, is never
overwritten: then nothing is changed at all. A second run changes nothing.

Exit codes: 0, 1 refused or failed, 2 wrong arguments.

Examples:
  tri install
  tri install --prefix ~/tri --plugin target/release/libggml_tri.so";

const UNINSTALL: &str = "\
Removes the files on record that are still as they were installed, and the folders that are empty then. Changed files
are named and left. A second run finds nothing to do.

Exit codes: 0, 1 something was left or failed, 2 wrong arguments.";

const DOCTOR: &str = "\
Exit codes: 0 all is well, 1 a check failed (its remedy is printed), 2 something could not be checked.

Examples:
  tri doctor
  tri doctor --llama-dir /opt/llama.cpp/build/bin --json
  tri doctor --env";

const PROFILE: &str = "\
The profile is one file for all processes and models: what things cost on this chip and what was decided, by chip, driver,
kernel, ggml and power source. TRI_PROFILE names another file, or 'off'. A damaged file is never used: it is renamed.

Exit codes: 0, 1 it cannot be used, 2 wrong arguments (or 'reset' without '--yes').

Examples:
  tri profile show
  tri profile export chip.json      on one machine, and on another one with the same chip:
  tri profile import chip.json      takes over what comes from more measurements than is known
  tri profile reset --yes           forgets everything";

const PLAN: &str = "\
Reads only the beginning of the file, and computes nothing: every time is a prediction from the figures of the chip.
Without --chip it is this machine, recognised by its CPU and GPU; one that the catalogue does not have is a CPU of which
all numbers are guesses.

Exit codes: 0, 1 the file cannot be read or its model cannot be planned, 2 wrong arguments.

Examples:
  tri plan model.gguf
  tri plan model.gguf --chip 'Ryzen AI 9 HX 370' --width 512 --svg prefill.svg
  tri plan --chip list";

/// Runs the tools of llama.cpp on TRI0, the device of the ggml-tri plugin.
#[derive(Debug, Parser)]
#[command(name = "tri", version, after_help = EXAMPLES)]
pub struct Tri {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Run a tool of llama.cpp, with '--backend NAME' added to what it takes.
    #[command(after_help = RUN, override_usage = "tri run TOOL [--backend NAME] [TOOL'S ARGUMENTS]...")]
    Run(Run),
    /// Put tri, the plugin builds and the links for the tools in place.
    #[command(after_help = INSTALL)]
    Install(Install),
    /// Remove exactly what 'tri install' put.
    #[command(after_help = UNINSTALL)]
    Uninstall(Place),
    /// Check this machine: host, plugin, CPU, memory, limits, GPU.
    #[command(after_help = DOCTOR)]
    Doctor(Doctor),
    /// What TRI0 learned about this chip: show, export, import, reset.
    #[command(after_help = PROFILE, subcommand)]
    Profile(ProfileAction),
    /// Show who would compute what of a model on a chip, how fast, and why.
    #[command(after_help = PLAN)]
    Plan(Plan),
    /// Ask what may break the process that asks; tri calls this in a child.
    #[command(name = "__probe", hide = true, subcommand)]
    Probe(Probe),
}

/// What `tri profile` does.
#[derive(Debug, Subcommand)]
pub enum ProfileAction {
    /// What is known, by chip and what runs it: since when, from how many measurements.
    Show(Form),
    /// Write everything as JSON.
    Export {
        /// Where to; stdout if no file is named.
        file: Option<PathBuf>,
        /// How to report.
        #[command(flatten)]
        form: Form,
    },
    /// Take over what another profile knows better; every number is checked first.
    Import {
        /// What 'tri profile export' wrote; '-' is stdin.
        file: PathBuf,
        /// How to report.
        #[command(flatten)]
        form: Form,
    },
    /// Forget everything. What a llama-server that still runs had learned does not come back.
    Reset {
        /// It is meant.
        #[arg(long)]
        yes: bool,
        /// How to report.
        #[command(flatten)]
        form: Form,
    },
}

impl ProfileAction {
    /// Whether to report in JSON.
    pub fn json(&self) -> bool {
        match self {
            ProfileAction::Show(form)
            | ProfileAction::Export { form, .. }
            | ProfileAction::Import { form, .. }
            | ProfileAction::Reset { form, .. } => form.json,
        }
    }
}

/// How to report.
#[derive(Debug, Args)]
pub struct Form {
    /// Print a JSON report.
    #[arg(long)]
    pub json: bool,
}

/// What a child is asked.
#[derive(Debug, Subcommand)]
pub enum Probe {
    /// Load a library and print what its function returns.
    Library {
        /// The library.
        file: PathBuf,
        /// The function.
        symbol: String,
    },
    /// Print the devices of Vulkan as JSON.
    Vulkan,
}

/// What `tri run` shows in its help; a call with a tool does not come this far.
#[derive(Debug, Args)]
pub struct Run {
    /// The tool, by name or path, and its own arguments.
    #[arg(value_name = "TOOL [ARGUMENTS]")]
    pub tool: Vec<OsString>,
}

/// Where something is installed, and how to speak about it.
#[derive(Debug, Args)]
pub struct Place {
    /// The folder of the installation, which has bin/ and lib/ in it; /usr/local for root, else ~/.local.
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
    /// Print a JSON report.
    #[arg(long)]
    pub json: bool,
}

/// The options of `tri install`.
#[derive(Debug, Args)]
pub struct Install {
    /// Where, and how to report.
    #[command(flatten)]
    pub place: Place,
    /// A plugin build to install, instead of those that lie with this executable; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub plugin: Vec<PathBuf>,
}

/// The options of `tri doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// List the settings with their present values instead.
    #[arg(long)]
    pub env: bool,
    /// With --env: print the page docs/settings.md.
    #[arg(long, requires = "env", conflicts_with = "json")]
    pub markdown: bool,
    /// Look for the tools of llama.cpp here instead of in TRI_LLAMA_DIR or on PATH.
    #[arg(long, value_name = "DIR")]
    pub llama_dir: Option<PathBuf>,
}

/// The options of `tri plan`.
#[derive(Debug, Args)]
pub struct Plan {
    /// The model's file.
    #[arg(value_name = "MODEL.gguf")]
    pub model: Option<PathBuf>,
    /// A chip of the catalogue instead of this machine, by a part of its name; 'list' prints the names.
    #[arg(long, value_name = "NAME")]
    pub chip: Option<String>,
    /// Tokens in the pass: 1 is decoding, 2 to 16 the check of speculated tokens, more are a prompt.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    pub width: u64,
    /// Positions of the KV cache that attention looks at; llama.cpp rounds up to a multiple of 256.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    pub context: u64,
    /// What the plan is to be good for.
    #[arg(long, value_name = "OBJECTIVE", value_enum, default_value_t = Goal::Speed)]
    pub objective: Goal,
    /// Print JSON, with every number of the chip and its source.
    #[arg(long)]
    pub json: bool,
    /// Draw the timeline of the pass.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// The longest pass and context that are planned; no model is trained for more.
const MOST: u64 = 1 << 24;

/// What a plan is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// The fewest seconds.
    Speed,
    /// The fewest joules.
    Energy,
    /// The fewest seconds below a ceiling of the temperature.
    Quiet,
}

impl Goal {
    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Speed => "speed",
            Goal::Energy => "energy",
            Goal::Quiet => "quiet",
        }
    }
}

impl From<Goal> for Objective {
    fn from(goal: Goal) -> Objective {
        match goal {
            Goal::Speed => Objective::Speed,
            Goal::Energy => Objective::Energy,
            Goal::Quiet => Objective::Quiet,
        }
    }
}
