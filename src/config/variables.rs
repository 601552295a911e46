//! The one list of settings: parsing, `tri doctor --env` and the documentation page are made from it.

/// One environment variable as the user sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name, `TRI_...`.
    pub name: &'static str,
    /// What it accepts, as shown to the user.
    pub allowed: &'static str,
    /// The value that holds when it is unset.
    pub default: &'static str,
    /// One sentence: what it decides.
    pub meaning: &'static str,
}

/// Every variable that ggml-tri reads, in the order in which they are shown.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "TRI_GPU",
        allowed: "auto | off | lavapipe | INDEX (0 to 15)",
        default: "auto",
        meaning: "Which Vulkan device TRI0 uses: the first usable one in hardware, none, Mesa's software device (for \
                  tests), or the one with this index in `tri doctor`.",
    },
    Variable {
        name: "TRI_NPU",
        allowed: "auto | off | sim",
        default: "auto",
        meaning: "Whether TRI0 uses the NPU. Accepted now; this version has no NPU engine.",
    },
    Variable {
        name: "TRI_LAYOUT",
        allowed: "auto | stock | plain | convert",
        default: "auto",
        meaning: "In which layout weights are held for the CPU: the faster one by the catalogue, the one that \
                  stock llama.cpp uses (repacked wherever ggml-cpu can), or the file's own. 'convert' is for \
                  tests: as stock, and weights in plain buffers are converted too, again for each graph.",
    },
    Variable {
        name: "TRI_PROFILE",
        allowed: "a file | off",
        default: "($XDG_STATE_HOME/ggml-tri/profile.db, else ~/.local/state/ggml-tri/profile.db)",
        meaning: "Where what TRI0 learned about this chip is kept, for all processes and models; 'off' keeps nothing. \
                  `tri profile` shows it.",
    },
    Variable {
        name: "TRI_LOG",
        allowed: "error | warn | info | debug | off",
        default: "info",
        meaning: "The least important messages that are shown. In a host they go through ggml's log callback.",
    },
    Variable {
        name: "TRI_TRACE",
        allowed: "off | gpu",
        default: "off",
        meaning: "Measures how long the GPU takes for the dispatches between two barriers, and lists the sums by shader \
                  when a stream ends. Costs some speed.",
    },
    Variable {
        name: "TRI_MODE",
        allowed: "off | adaptive | frozen",
        default: "off",
        meaning: "Where TRI0 has a CPU and a GPU on one memory: whether it computes each graph on the engine that is the better \
                  one by the chip's figures, measures who is faster at what and lets its plans follow (on trial in this \
                  version: see Honest limits in the README), or uses what was learned and changes nothing.",
    },
    Variable {
        name: "TRI_OBJECTIVE",
        allowed: "speed | energy",
        default: "speed",
        meaning: "What a plan is good for: the fewest seconds, or the fewest joules by the chip's figures.",
    },
    Variable {
        name: "TRI_QUOTA",
        allowed: "off | ENGINE:SHARE[,ENGINE:SHARE] (engines: cpu, gpu)",
        default: "off",
        meaning: "Forces the shares of the rows of each matrix product, for tests: 'cpu:0.5,gpu:0.5' gives each half.",
    },
    Variable {
        name: "TRI_FAULT",
        allowed: "off | alloc@N | compute@N | panic@N | vulkan:alloc@N | vulkan:lost@N | \
                  slow:cpu:TIMES@N-M | slow:gpu:TIMES@N-M (N and M count from 1)",
        default: "off",
        meaning: "Fault injection for tests: the Nth buffer of the host cannot be had, the Nth graph fails, the Nth graph \
                  panics inside the plugin, the Nth allocation of the GPU fails, the GPU is lost in its Nth run, or an engine takes \
                  several times as long in graphs N to M.",
    },
    Variable {
        name: "TRI_LLAMA_DIR",
        allowed: "a folder",
        default: "(the next match on PATH)",
        meaning: "Where the launcher looks for the real llama.cpp tools.",
    },
    Variable {
        name: "TRI_PLUGIN",
        allowed: "a file",
        default: "(the build for the host's ggml version)",
        meaning: "The plugin file that the launcher hands to llama.cpp, instead of choosing one by version.",
    },
];
