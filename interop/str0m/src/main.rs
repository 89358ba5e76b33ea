//! A peer of the interop matrix around str0m: JSON lines in, JSON lines out
//! (interop/peers/lines.py). A thread for each connection, which alone touches it.

mod peer;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, Sender};
use std::thread;

use serde_json::{json, Value};

/// Seconds of the clock that the driver reads as well.
pub fn now() -> f64 {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `at` is a valid timespec for the call to fill
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut at) };
    at.tv_sec as f64 + at.tv_nsec as f64 / 1e9
}

pub fn emit(message: Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{message}");
    let _ = out.flush();
}

pub fn reply(id: &Value, result: Result<Value, String>) {
    match result {
        Ok(value) => emit(json!({"re": id, "value": value})),
        Err(error) => emit(json!({"re": id, "error": error})),
    }
}

fn create(command: Value) -> Sender<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let id = command["id"].clone();
        match peer::Peer::new(&command) {
            Ok(mut made) => {
                reply(&id, Ok(Value::Null));
                made.run(receiver);
            }
            Err(error) => reply(&id, Err(error)),
        }
    });
    sender
}

fn main() {
    str0m::crypto::from_feature_flags().install_process_default();
    let mut known: HashMap<u64, Sender<Value>> = HashMap::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let Ok(command) = serde_json::from_str::<Value>(&line) else {
            eprintln!("not JSON: {line}");
            continue;
        };
        let id = command["id"].clone();
        let pc = command["pc"].as_u64().unwrap_or(0);
        match command["cmd"].as_str() {
            Some("hello") => reply(&id, Ok(json!({"version": "str0m"}))),
            Some("create") => {
                known.insert(pc, create(command));
            }
            Some(name) => {
                let gone = match known.get(&pc) {
                    Some(sender) => sender.send(command.clone()).is_err(),
                    None => true,
                };
                if gone && name == "close" {
                    reply(&id, Ok(Value::Null));
                } else if gone {
                    reply(&id, Err(format!("no connection {pc}")));
                }
            }
            None => reply(&id, Err("no command".into())),
        }
    }
}
