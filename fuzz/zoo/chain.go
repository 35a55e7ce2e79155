package zoo

import (
	"slices"

	"github.com/gpubench/gpubench/plugins/sdk"
)

// state is what a node stands for.
type state uint8

const (
	unused state = iota
	live
	free
	pending // freed, a stream may still use it
)

var stateNames = [...]string{"unused", "live", "free", "pending"}

// node is a block: a range of a segment, linked to its neighbours in address order. Node 0 is none.
type node struct {
	addr, size uint64
	asked      uint64 // bytes requested, of a live block
	align      uint64 // demanded, of a live block
	serial     uint64 // of the tenancy; part of what a program must show to free it
	prev, next int32
	seg        int32
	state      state
	stream     uint16
}

// chain is a table of nodes.
type chain struct {
	nodes []node
	spare []int32
	bug   bug
}

func newChain(b bug) chain { return chain{nodes: make([]node, 1, 16), bug: b} }

func (c *chain) clone() chain {
	return chain{nodes: slices.Clone(c.nodes), spare: slices.Clone(c.spare), bug: c.bug}
}

// add makes a free node that is linked to none.
func (c *chain) add(addr, size uint64, seg int32) int32 {
	n := node{addr: addr, size: size, seg: seg, state: free}
	if k := len(c.spare); k > 0 {
		i := c.spare[k-1]
		c.spare = c.spare[:k-1]
		c.nodes[i] = n
		return i
	}
	c.nodes = append(c.nodes, n)
	return int32(len(c.nodes) - 1)
}

// split cuts node i behind its first size bytes and returns the new node of the rest.
func (c *chain) split(i int32, size uint64) int32 {
	n := c.nodes[i]
	rest := c.add(n.addr+size, n.size-size, n.seg)
	c.nodes[rest].prev, c.nodes[rest].next = i, n.next
	c.nodes[i].size = size
	c.nodes[i].next = rest
	if n.next != 0 {
		c.nodes[n.next].prev = rest
	}
	return rest
}

// join takes the node behind i into i.
func (c *chain) join(i int32) {
	n := &c.nodes[i]
	gone := n.next
	g := &c.nodes[gone]
	if c.bug == tailForgetsOffset && g.next == 0 {
		n.addr = g.addr
	}
	n.size += g.size
	n.next = g.next
	if g.next != 0 && c.bug != unlinkOneSide {
		c.nodes[g.next].prev = i
	}
	*g = node{addr: g.addr, size: g.size}
	c.spare = append(c.spare, gone)
}

// picture lists the blocks from node i on. A chain that a bug has bent into a ring ends after as many blocks as there are nodes.
func (c *chain) picture(i int32) []sdk.InspectedBlock {
	var list []sdk.InspectedBlock
	for ; i != 0 && len(list) <= len(c.nodes); i = c.nodes[i].next {
		n := &c.nodes[i]
		list = append(list, sdk.InspectedBlock{Addr: n.addr, Bytes: n.size, State: stateNames[n.state]})
	}
	return list
}

// metaBytes is the size of the table.
func (c *chain) metaBytes() uint64 { return uint64(len(c.nodes)) * 64 }

// without removes i from a list of nodes; one that is not there changes nothing.
func without(list []int32, i int32) []int32 {
	if at := slices.Index(list, i); at >= 0 {
		return slices.Delete(list, at, at+1)
	}
	return list
}

// up rounds n up to a multiple of unit, a power of two. It wraps at the top.
func up(n, unit uint64) uint64 { return (n + unit - 1) &^ (unit - 1) }

// down rounds n down to a multiple of unit, a power of two.
func down(n, unit uint64) uint64 { return n &^ (unit - 1) }
