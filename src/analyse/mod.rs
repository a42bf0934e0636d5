//! Numbers → answers: rooflines, Little's law, crossover, cost, comparisons. Pure: no I/O, no clock, no async.
