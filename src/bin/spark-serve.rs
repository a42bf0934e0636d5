//! `spark-serve`: parse, load, bind, serve.

fn main() {}
