//! What is said of a connection, held against what is known of it.

mod bytes;
mod causes;
mod classes;
mod conditions;
mod conversation;
mod damage;
mod dns;
mod documentation;
mod files;
mod findings;
mod held_up;
mod moments;
mod network;
mod partial;
mod places;
mod properties;
mod provoked;
mod queues;
mod quic;
mod real_captures;
mod short_way;
mod snapshot;
mod tls;
mod transactions;
#[path = "../truth/mod.rs"]
mod truth;
mod two_places;
mod udp;
mod unchanged;
