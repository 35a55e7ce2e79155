package results

// Environment is what a run ran on: captured once, before the first trial. A field that could not be read is empty; it is
// never guessed.
type Environment struct {
	Host          string   `json:"host"`
	OS            string   `json:"os"`
	Kernel        string   `json:"kernel,omitempty"`
	Architecture  string   `json:"architecture"`
	CPU           string   `json:"cpu,omitempty"`
	CPUs          int      `json:"cpus"`
	Governor      string   `json:"governor,omitempty"`
	MemoryBytes   uint64   `json:"memory_bytes,omitempty"`
	CgroupCPUMax  string   `json:"cgroup_cpu_max,omitempty"`
	CgroupMemory  string   `json:"cgroup_memory_max,omitempty"`
	LoadAverage1  float64  `json:"load_average_1"`
	Hypervisor    bool     `json:"hypervisor"`
	GoVersion     string   `json:"go_version"`
	Version       string   `json:"version"`
	Commit        string   `json:"commit,omitempty"`
	Modified      bool     `json:"modified"`
	ClockSource   string   `json:"clock_source"`
	ClockCostNs   float64  `json:"clock_cost_ns"`
	GPUs          []string `json:"gpus,omitempty"`
	DriverVersion string   `json:"driver_version,omitempty"`
	Warnings      []string `json:"warnings,omitempty"` // what makes timing on this machine less trustworthy
}
