//! Every kind of change leaves its event.
