//go:build !cgo || !linux

// Command gpubench-backend-cuda is the plugin for NVIDIA hardware; this build of it can do nothing, because it was made
// without cgo.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "gpubench-backend-cuda: built without cgo, so it cannot reach the driver; build it on Linux with a C compiler: "+
		"CGO_ENABLED=1 go build -ldflags '-extldflags=-Wl,-z,lazy' ./cmd/gpubench-backend-cuda")
	os.Exit(2)
}
