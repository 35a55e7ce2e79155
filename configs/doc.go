// Package configs holds what gpubench ships as data (devices and suites, as YAML embedded in the binary) and reads what
// users write: a configuration file, environment variables and flags.
//
// # Order
//
// A value comes from the first of these that sets it: flag, environment variable (GPUBENCH_ and the key in capitals), file
// (--config, else gpubench.yaml in the working directory if it exists), built-in default. Everything is read once, strictly, into plain structs: an unknown key, a wrong type or a value out of
// range is one error that names the key and the file. Nothing keeps a reference to the reading library, which
// lower-cases keys (so option names are snake_case) and is not safe for concurrent use.
//
// # Requested and effective
//
// Effective returns, beside the values, where each one came from; `gpubench config show` prints both, because a setting
// that silently did nothing is the most common complaint about allocator settings.
//
// # What is not here
//
// This package imports nothing of the project: cmd hands its structs on. Cost figures of devices carry their source, or
// say that they are uncalibrated; no figure is invented.
package configs
