// This file holds how expressions are changed.

package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
)

// others are the operators that an operator becomes.
var others = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, // the boundary
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
}

// expression mutates an expression and gives what stands in its place.
func (x *mutator) expression(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return x.binary(e)
	case *ast.ParenExpr:
		e.X = x.expression(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			e.X = x.condition(e.X)
		} else if e.Op != token.AND { // what an address is taken of must stay what it is
			e.X = x.expression(e.X)
		}
	case *ast.CallExpr:
		x.call(e)
	case *ast.FuncLit:
		x.block(e.Body)
	case *ast.CompositeLit:
		for i, part := range e.Elts {
			if pair, ok := part.(*ast.KeyValueExpr); ok {
				pair.Value = x.expression(pair.Value)
			} else {
				e.Elts[i] = x.expression(part)
			}
		}
	case *ast.IndexExpr:
		if !x.types.Types[e.Index].IsType() {
			e.Index = x.expression(e.Index)
		}
	case *ast.SliceExpr:
		e.Low, e.High = x.expression(e.Low), x.expression(e.High)
	}
	return e
}

// call mutates the arguments of a call, unless it is a conversion of a constant.
func (x *mutator) call(e *ast.CallExpr) {
	if t := x.types.Types[e.Fun]; t.IsType() && len(e.Args) == 1 && x.types.Types[e].Value != nil {
		return
	}
	for i, a := range e.Args {
		if !x.types.Types[a].IsType() {
			e.Args[i] = x.condition(a)
		}
	}
	if f, ok := e.Fun.(*ast.FuncLit); ok {
		x.block(f.Body)
	}
}

// binary puts another operator behind a switch:
//
//	func() T { if mutantIs(7) { return a <= b }; return a < b }()
func (x *mutator) binary(e *ast.BinaryExpr) ast.Expr {
	text, at := x.text(e), e.Pos()
	result := x.typeOf(e)
	other, some := others[e.Op]
	left, right := x.text(e.X), x.text(e.Y)
	var changed ast.Expr
	if some {
		changed = x.again(&ast.BinaryExpr{X: e.X, Op: other, Y: e.Y})
	}
	if e.Op == token.LAND || e.Op == token.LOR {
		e.X, e.Y = x.condition(e.X), x.condition(e.Y)
	} else {
		e.X, e.Y = x.expression(e.X), x.expression(e.Y)
	}
	if changed == nil || result == "" {
		return e
	}
	id := x.mutant(at, text, left+" "+other.String()+" "+right)
	return &ast.CallExpr{Fun: &ast.FuncLit{
		Type: &ast.FuncType{Params: &ast.FieldList{}, Results: &ast.FieldList{List: []*ast.Field{{Type: ast.NewIdent(result)}}}},
		Body: &ast.BlockStmt{List: []ast.Stmt{
			&ast.IfStmt{Cond: call("mutantIs", number(id)), Body: &ast.BlockStmt{List: []ast.Stmt{
				&ast.ReturnStmt{Results: []ast.Expr{changed}}}}},
			&ast.ReturnStmt{Results: []ast.Expr{e}}}},
	}}
}

// again gives an expression anew, as it stands in the code: the changed one holds no
// mutants of its own, or nested ones would double the code. Nil: it holds a function.
func (x *mutator) again(e ast.Expr) ast.Expr {
	var text bytes.Buffer
	if err := printer.Fprint(&text, x.fset, e); err != nil {
		return nil
	}
	parsed, err := parser.ParseExpr(text.String())
	if err != nil {
		return nil
	}
	return parsed
}

// typeOf gives the name of the basic type that an operator gives; empty: it is another one,
// or a constant.
func (x *mutator) typeOf(e *ast.BinaryExpr) string {
	t := x.types.Types[e]
	if t.Type == nil || t.Value != nil {
		return ""
	}
	basic, ok := t.Type.(*types.Basic)
	switch {
	case !ok || basic.Info()&types.IsString != 0:
		return ""
	case basic.Kind() == types.UntypedBool:
		return "bool"
	case basic.Info()&types.IsUntyped != 0:
		return ""
	}
	return basic.Name()
}
