// Package rmmpool is RMM's pool_memory_resource (rapidsai/rmm v24.10.00), decision for decision, including its waits between
// streams.
//
// # Policy
//
// Best fit with the lowest address among equals, over blocks of 256-byte units that are always split and joined with their
// free neighbours at the free; one free list a stream, searched and merged by the rules of the stream-ordered base
// (internal/rmm). When nothing fits, the pool grows: with a maximum by half of what is left below it, otherwise by as much
// as it has; the device is asked for half of that, and so on, while it refuses, down to the request itself. Segments never
// merge and are never given back.
//
// # Structure
//
// The best-fit core of internal/pool, a list for each stream.
//
// # Invariants
//
// Blocks tile their segments; no two free blocks of one list touch within a segment.
//
// # Complexity
//
// O(log blocks) an event, except that a request which no list can serve merges all lists. (The original scans its lists
// linearly.) Every free records an event.
//
// # Known weak cases
//
// Neighbours freed on unlike streams do not join until their lists are merged. Half of what a maximum leaves need not be a
// multiple of 256 bytes, so segments may have a tail that no request can use.
package rmmpool
