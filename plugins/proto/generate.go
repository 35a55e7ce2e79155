// Package proto holds the protobuf contract between gpubench and its plugins and, below it, the generated Go code, which is
// checked in: building needs no code generator. To regenerate after a change of plugin.proto, install protoc,
// protoc-gen-go v1.36.12 and protoc-gen-go-grpc v1.6.2 and run `go generate ./plugins/proto`.
//
// The contract only grows: field numbers are never reused and never change their meaning. What a field means to a plugin in
// any language is told in docs/PLUGINS.md.
package proto

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative gpubench/plugin/v1/plugin.proto
