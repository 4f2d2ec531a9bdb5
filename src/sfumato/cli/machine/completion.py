"""The command that prints a shell's completion of all other commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sfumato.cli.output import print_text

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_SFUMATO_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash  eval "$(sfumato completion bash)"            in ~/.bashrc
    zsh   eval "$(sfumato completion zsh)"             in ~/.zshrc
    fish  sfumato completion fish | source             in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    root = click.get_current_context().find_root().command
    if kind is not None:
        complete = kind(root, {}, "sfumato", _VARIABLE)
        print_text(complete.source_template % complete.source_vars())
