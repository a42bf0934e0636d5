//! Numbers → answers: rooflines, Little's law, crossover, cost, comparisons. Pure: no I/O, no
//! clock, no async.

pub mod compare;
pub mod cost;
pub mod crossover;
pub mod curvature;
pub mod explorer;
pub mod headline;
pub mod littles_law;
pub mod rank_tests;
pub mod roofline;
pub mod sample_size;
