// Package standin builds and drives the stand-in for the CUDA driver library; without cgo it is empty.
package standin
