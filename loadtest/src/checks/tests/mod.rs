//! Tests of the rules: what each accepts and refuses, and that all of them find what is planted into simulated histories.

mod fencing;
mod history_builder;
mod leaks;
mod one_holder;
mod planted;
mod properties;
mod queue_order;
mod visibility;
