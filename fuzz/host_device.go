package fuzz

import (
	"github.com/gpubench/gpubench/backends"
	"github.com/gpubench/gpubench/backends/host"
)

// openHost opens real memory of this machine, whose pages come when they are touched.
func openHost(totalBytes uint64) (backends.Device, error) {
	return host.New(host.Config{TotalBytes: totalBytes, Lazy: true})
}
