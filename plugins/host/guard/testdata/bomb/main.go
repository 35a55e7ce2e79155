// Command bomb takes memory until somebody stops it: step by step, or ("giant") 64 GiB at once. It is built without the race
// detector, whose own mappings do not fit under any limit.
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "giant" {
		fmt.Println(len(make([]byte, 64<<30)))
		return
	}
	var keep [][]byte
	for {
		b := make([]byte, 8<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		keep = append(keep, b)
		time.Sleep(2 * time.Millisecond)
		if len(keep) > 1000 { // 8 GiB: no limit works here
			panic("nobody stopped the bomb")
		}
	}
}
