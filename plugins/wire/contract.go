package wire

// The handshake of go-plugin. The cookie tells a plugin executable that it was started by gpubench and not by hand.
const (
	CookieKey       = "GPUBENCH_PLUGIN"
	CookieValue     = "7f1d2c66-window-slot-execute"
	ProtocolVersion = 1          // of the control plane (package gpubench.plugin.v1)
	PluginName      = "gpubench" // key of the one plugin set served
)

// Environment variables that the host sets for a plugin process, beside those of go-plugin.
const (
	// EnvLifelineFD is the number of an inherited read end of a pipe whose write end only the host holds: end of file means
	// that the host is gone and the plugin must exit at once.
	EnvLifelineFD = "GPUBENCH_LIFELINE_FD"
	// EnvWindowFD is the number of the inherited memory file of the replay window. OpenRequest.window names it again; the
	// variable is for people who debug a plugin.
	EnvWindowFD = "GPUBENCH_WINDOW_FD"
	// EnvSlotFD is the number of the inherited memory file of a remote device's slot, likewise.
	EnvSlotFD = "GPUBENCH_SLOT_FD"
)

// Limits of the control plane.
const (
	// MaxMessageBytes bounds every gRPC message in both directions; servers and clients both set it (gRPC servers start at
	// 4 MiB). The largest message is the result of a program: MaxProgramEvents outcomes of 32 bytes and as many calls of
	// 48 bytes take 20 MiB.
	MaxMessageBytes = 64 << 20
	// MaxProgramEvents bounds one program of Execute.
	MaxProgramEvents = 1 << 18
	// MaxOptionsBytes bounds an options document.
	MaxOptionsBytes = 1 << 20
)
