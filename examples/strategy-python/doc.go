// Package strategypython holds no Go code but the test of a plugin in Python, gpubench-strategy-pybump: the contract of
// docs/PLUGINS.md without the SDK. Where Python has grpc and protobuf, the test puts it through the whole check of the plugin
// host, over a device in another process; elsewhere it is skipped and says what is missing.
package strategypython
