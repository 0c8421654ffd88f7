"""A dozen stand-in agents of two models under caps, on a store of their own."""

from argparse import ArgumentParser, Namespace


def arguments(parser: ArgumentParser) -> None:
    """What `demo` takes."""
    parser.add_argument("--agents", type=int, default=12, metavar="N", help="how many agents (12)")
    parser.add_argument(
        "--seed",
        type=int,
        default=7,
        metavar="N",
        help="another number, another course of events (7)",
    )
    parser.add_argument(
        "--plain", action="store_true", help="lines instead of a picture that moves"
    )


def run(args: Namespace) -> int:
    """Show the real thing at work."""
    from headgate.demo import show

    return show(max(2, min(args.agents, 64)), args.seed, plain=args.plain)
