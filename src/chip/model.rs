//! A chip as the planner sees it: what its processors can do, as plain data.
//!
//! Pure: no probe of this machine is here. The numbers come from the catalogue, or from what was learned.

use crate::engine::EngineKind;

/// One processor of a chip.
#[derive(Debug, Clone, PartialEq)]
pub struct Processor {
    /// Which engine drives it.
    pub kind: EngineKind,
    /// Its name, such as `Radeon 780M`.
    pub name: String,
    /// Bytes per second that it reads from memory when it is alone.
    pub bandwidth: f64,
    /// Operations per second (a multiplication and an addition are two) in products of few columns (1 to 16).
    pub few: f64,
    /// Operations per second in products of many columns.
    pub many: f64,
    /// Seconds from giving it a step to the step's begin, and from its end to our knowing: paid once for each step.
    pub launch: f64,
    /// Seconds that each node of a step costs besides its work: a dispatch with its barrier, or a barrier of threads.
    pub node: f64,
    /// Rows of a product come in multiples of this.
    pub rows: u32,
    /// Watts while it computes.
    pub watts: f64,
}

/// A chip: processors on one memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Chip {
    /// Its name, such as `Ryzen AI 9 HX 370`.
    pub name: String,
    /// Bytes per second of the memory that the processors share; those that have their own are not limited by it.
    pub bus: f64,
    /// The processors that use the shared memory. A discrete GPU does not.
    pub shared: Vec<EngineKind>,
    /// Seconds that it takes to let two engines that ran side by side go on together.
    pub join: f64,
    /// Watts of the chip while nothing computes.
    pub idle: f64,
    /// The processors; the CPU is always there, and first.
    pub processors: Vec<Processor>,
}

impl Chip {
    /// The processor of a kind, if the chip has one.
    pub fn processor(&self, kind: EngineKind) -> Option<&Processor> {
        self.processors.iter().find(|p| p.kind == kind)
    }
}
