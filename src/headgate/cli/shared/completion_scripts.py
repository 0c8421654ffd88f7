"""What a shell is told so that it completes commands: it asks `headgate completion words`."""

BASH = r"""
_headgate() {
    local IFS=$'\n' line found current="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=()
    found=$(headgate completion words headgate "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case $found in
        :file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")) ;;
        :dir) compopt -o filenames; COMPREPLY=($(compgen -d -- "$current")) ;;
        ":command "*)
            if [ "$((COMP_CWORD - 1))" -eq "${found#:command }" ]; then
                COMPREPLY=($(compgen -c -- "$current"))
            else
                compopt -o filenames; COMPREPLY=($(compgen -f -- "$current"))
            fi ;;
        *)
            while IFS= read -r line; do
                [ -n "$line" ] && COMPREPLY+=("$(printf '%q' "${line%%$'\t'*}")")
            done <<< "$found" ;;
    esac
}
complete -F _headgate headgate
""".lstrip()

ZSH = r"""
#compdef headgate
_headgate() {
    local line first
    local -a found shown
    found=("${(@f)$(headgate completion words headgate "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    case $found[1] in
        :file) _files ;;
        :dir) _files -/ ;;
        ':command '*)
            first=$((${found[1]#:command } + 2))
            words=("${(@)words[first,-1]}")
            (( CURRENT -= first - 1 ))
            _normal ;;
        *)
            for line in $found; do
                [[ -n $line ]] && shown+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
            done
            _describe -t headgate headgate shown ;;
    esac
}
if [[ $funcstack[1] == _headgate ]]; then
    _headgate "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _headgate headgate
fi
""".lstrip()

FISH = r"""
function __headgate_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l found (headgate completion words headgate $before[2..-1] "$current" 2>/dev/null)
    switch "$found[1]"
        case ':file'
            __fish_complete_path "$current"
        case ':dir'
            __fish_complete_directories "$current"
        case ':command *'
            set -l first (string replace ':command ' '' -- $found[1])
            __fish_complete_subcommand --fcs-skip=(math $first + 1)
        case '*'
            printf '%s\n' $found
    end
end
complete -c headgate -f -a '(__headgate_complete)'
""".lstrip()

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
