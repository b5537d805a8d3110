//go:build linux

// This file holds the cuts: one nftables table for each, in the namespace that the
// program runs in.

package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/ackproof/ackproof/clusters/agent"
)

// tablePrefix tells our tables from others'.
const tablePrefix = "ackproof-"

// cut puts a cut in force. nftables takes what is flushed as one transaction: all of
// it or nothing.
func cut(text string) error {
	var wanted agent.Cut
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wanted); err != nil {
		return fmt.Errorf("reading the cut: %w", err)
	}
	if wanted.Name == "" || len(wanted.Rules) == 0 {
		return fmt.Errorf("the cut %q has no name or no rules", wanted.Name)
	}
	connection, err := nftables.New()
	if err != nil {
		return fmt.Errorf("reaching nftables: %w", err)
	}
	table := connection.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: tablePrefix + wanted.Name})
	accept := nftables.ChainPolicyAccept
	priority := nftables.ChainPriorityFilter
	if wanted.Late {
		priority = nftables.ChainPriorityRef(*priority + 1)
	}
	chains := map[string]*nftables.Chain{
		agent.In: connection.AddChain(&nftables.Chain{Name: agent.In, Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: priority, Policy: &accept}),
		agent.Out: connection.AddChain(&nftables.Chain{Name: agent.Out, Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookOutput, Priority: priority, Policy: &accept}),
	}
	for _, rule := range wanted.Rules {
		expressions, err := compile(rule)
		if err != nil {
			return fmt.Errorf("the rule %s of the cut %s: %w", rule.Name, wanted.Name, err)
		}
		connection.AddRule(&nftables.Rule{Table: table, Chain: chains[rule.Direction], Exprs: expressions,
			UserData: []byte(rule.Name)})
	}
	if err := connection.Flush(); err != nil {
		return fmt.Errorf("putting the cut %s in force (it needs NET_ADMIN, and a kernel with nf_tables): %w", wanted.Name, err)
	}
	return nil
}

// compile gives the expressions of a rule: its conditions, a counter, and the drop.
func compile(rule agent.Rule) ([]expr.Any, error) {
	in := rule.Direction == agent.In
	if !in && rule.Direction != agent.Out {
		return nil, fmt.Errorf("its direction is %q; it is %s or %s", rule.Direction, agent.In, agent.Out)
	}
	if rule.Percent < 1 || rule.Percent > 100 {
		return nil, fmt.Errorf("it drops %d percent; it is from 1 to 100", rule.Percent)
	}
	var expressions []expr.Any
	if rule.Peer != "" {
		peer, err := matchPeer(rule.Peer, in)
		if err != nil {
			return nil, err
		}
		expressions = append(expressions, peer...)
	}
	if rule.LocalPort != 0 || rule.PeerPort != 0 {
		expressions = append(expressions, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals([]byte{unix.IPPROTO_TCP}))
		source, destination := rule.LocalPort, rule.PeerPort // of a packet that goes out
		if in {
			source, destination = destination, source
		}
		expressions = append(expressions, matchPort(source, 0)...)
		expressions = append(expressions, matchPort(destination, 2)...)
	}
	if rule.Percent < 100 {
		expressions = append(expressions,
			&expr.Numgen{Register: 1, Modulus: 100, Type: unix.NFT_NG_RANDOM},
			// A comparison goes byte by byte, so the number must be big-endian.
			&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
			&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(uint32(rule.Percent))})
	}
	return append(expressions, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}), nil
}

func equals(data []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

// matchPeer compares the address of the other side: where a packet that comes in has
// its source, and one that goes out its destination (RFC 791).
func matchPeer(text string, in bool) ([]expr.Any, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return nil, fmt.Errorf("its peer %q is not an IPv4 address", text)
	}
	offset := uint32(16)
	if in {
		offset = 12
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equals([]byte{unix.NFPROTO_IPV4}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}, equals(address.AsSlice()),
	}, nil
}

// matchPort compares a port of the TCP header at an offset; 0: any.
func matchPort(port uint16, offset uint32) []expr.Any {
	if port == 0 {
		return nil
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
		equals(binaryutil.BigEndian.PutUint16(port)),
	}
}

// tables gives the tables of our cuts.
func tables(connection *nftables.Conn) ([]*nftables.Table, error) {
	all, err := connection.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("listing the tables of nftables: %w", err)
	}
	var ours []*nftables.Table
	for _, table := range all {
		if strings.HasPrefix(table.Name, tablePrefix) {
			ours = append(ours, table)
		}
	}
	return ours, nil
}

// mend takes a cut away.
func mend(name string) error {
	connection, err := nftables.New()
	if err != nil {
		return fmt.Errorf("reaching nftables: %w", err)
	}
	present, err := tables(connection)
	if err != nil {
		return err
	}
	for _, table := range present {
		if table.Name == tablePrefix+name {
			connection.DelTable(table)
		}
	}
	if err := connection.Flush(); err != nil {
		return fmt.Errorf("taking the cut %s away: %w", name, err)
	}
	return nil
}

// cuts says which cuts are in force, and what each rule has dropped.
func cuts() ([]agent.InForce, error) {
	connection, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("reaching nftables: %w", err)
	}
	present, err := tables(connection)
	if err != nil {
		return nil, err
	}
	inForce := []agent.InForce{}
	for _, table := range present {
		current := agent.InForce{Name: strings.TrimPrefix(table.Name, tablePrefix), Dropped: make(map[string]uint64)}
		for _, chain := range []string{agent.In, agent.Out} {
			rules, err := connection.GetRules(table, &nftables.Chain{Name: chain})
			if err != nil {
				return nil, fmt.Errorf("listing the rules of the cut %s: %w", current.Name, err)
			}
			for _, rule := range rules {
				current.Dropped[string(rule.UserData)] += dropped(rule)
			}
		}
		inForce = append(inForce, current)
	}
	return inForce, nil
}

// dropped gives how many packets a rule has dropped.
func dropped(rule *nftables.Rule) uint64 {
	for _, e := range rule.Exprs {
		if counter, is := e.(*expr.Counter); is {
			return counter.Packets
		}
	}
	return 0
}
