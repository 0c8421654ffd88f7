"""What is known about the programs that are started: which agent it is, what it uses, its meter."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headgate import config as configuration
from headgate.core.times import Seconds, seconds
from headgate.errors import ConfigError
from headgate.gate.pool_settings import PoolSettings
from headgate.gate.project_here import project_here

if TYPE_CHECKING:
    from headgate.config.project import Project
    from headgate.core.agents.find_profile import Profile
    from headgate.core.agents.meters import AskedMeter
    from headgate.core.agents.run_limits import JobPolicy
    from headgate.core.answers.answer_rules import Rule


class KnownAgents(PoolSettings):
    """The part of a gate that reads the configuration and the profiles for those who start work."""

    project: "Project | None" = None
    """The project that this gate was opened in, if that has a file of its own."""

    @property
    def job_policy(self) -> "JobPolicy":
        """How jobs are watched, and for how long they wait and are kept."""
        return self._settings.config.jobs

    def profiles(self) -> "tuple[Profile, ...]":
        """The kinds of agents that are known, the configuration's own first."""
        from headgate.config.profiles import all_profiles

        return all_profiles(self._config_here())

    def silence_hint(self, argv: Sequence[str]) -> str:
        """How to make the agent of a command talk that prints nothing while it works; or empty."""
        from headgate.core.agents.silence_hint import silence_hint

        return silence_hint(self.profile_of(argv), argv)

    def profile_of(self, argv: Sequence[str]) -> "Profile":
        """What kind of agent a command starts; one without a name if none that is known."""
        from headgate.config.profiles import profile_of

        return profile_of(self._config_here(), argv)

    def enter_project(self, folder: str) -> None:
        """Know the programs of the project that a folder is in, as those who start work there do.

        One that cannot be read, or is not trusted, names none.
        """
        try:
            self.project = project_here(folder)
        except ConfigError:
            self.project = None

    def _config_here(self) -> "configuration.Config":
        """The configuration, with the programs that only this project knows."""
        config = self._settings.config
        if self.project is None or not self.project.profiles:
            return config
        from headgate.config.project import lay_under

        return lay_under(config, self.project.profiles)

    def key_of(self, argv: Sequence[str], environment: Mapping[str, str]) -> str | None:
        """What a command uses, where its own words or its environment tell."""
        profile = self.profile_of(argv)
        if not profile.name:
            return None
        from headgate.core.agents import find_profile

        return find_profile.key(profile, argv, environment)

    def meter_of(self, key: str | None) -> "AskedMeter | None":
        """How the configuration says that agents with this key are counted and watched."""
        from headgate.core.agents.meters import AskedMeter, Meter
        from headgate.core.key_patterns import matches, specificity

        config = self._settings.config
        said = [
            (name, pool.meter)
            for name, pool in config.pools.items()
            if pool.meter and key and matches(name, key)
        ]
        if said:
            name, meter = max(said, key=lambda one: (specificity(one[0]), one[0]))
            return AskedMeter(Meter(meter), f'[pools."{name}"]')
        if config.defaults.meter:
            return AskedMeter(Meter(config.defaults.meter), "[defaults]")
        return None

    def queue_timeout_of(self, key: str) -> Seconds | None:
        """For how long the configuration lets a request with this key wait; None if for ever."""
        from headgate.core.key_patterns import matches

        config = self._settings.config
        said = [pool.queue_timeout for name, pool in config.pools.items() if matches(name, key)]
        known = [one for one in said if one is not None]
        found = min(known) if known else config.defaults.queue_timeout
        return None if found is None else seconds(found)

    def rules(self) -> "tuple[Rule, ...]":
        """How to read what upstream answers."""
        return self._settings.rules()
