"""What the invented rules of the training are about."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Matter:
    """Something a rule is about: verb and object as a rulebook says them and as a person does, and what starts time."""

    verb: str
    thing: str
    said: str
    event: str


MATTERS = [
    Matter("notify the regulator of", "a change of its controller", "tell the supervisor that we have a new owner",
           "the change"),
    Matter("report", "a failed settlement", "own up to a trade that did not settle", "the intended settlement date"),
    Matter("file", "its annual solvency return", "hand in the yearly solvency figures", "the end of the year"),
    Matter("submit", "its quarterly liquidity statement", "send in the liquidity numbers", "the end of the quarter"),
    Matter("review", "its outsourcing contracts", "go through the deals with our suppliers again", "the last review"),
    Matter("reconcile", "the unit register", "check the list of unit holders against the count",
           "the date of the balance"),
    Matter("send", "a valuation of the holding", "let people know what their investment is worth", "the request"),
    Matter("acknowledge", "a written complaint", "write back to somebody who is cross with us", "its receipt"),
    Matter("pay", "an accepted claim", "settle up once we have said yes to a claim", "the acceptance"),
    Matter("return", "an overpayment", "give back money paid twice", "the discovery"),
    Matter("appoint", "a replacement auditor", "find somebody new to audit us", "the vacancy"),
    Matter("publish", "its disclosure statement", "put the disclosure on the website", "its approval"),
    Matter("test", "its disaster recovery plan", "try out the backup plan", "the last test"),
    Matter("obtain", "a fresh proof of address", "get a new utility bill from somebody", "the change of address"),
    Matter("verify", "the source of the funds", "find out where the cash came from", "the first payment"),
    Matter("record", "a personal account deal", "write down a trade that one of us did privately", "the deal"),
    Matter("disclose", "a conflict of interest", "come clean that we have a stake in it", "becoming aware of it"),
    Matter("correct", "an erroneous transaction record", "mend a wrong line in the trade log", "finding the error"),
    Matter("register", "a new appointed representative", "sign up an agent of ours", "the appointment"),
    Matter("renew", "its professional indemnity cover", "keep the liability policy going", "its expiry"),
    Matter("deliver", "the key facts document", "hand over the summary sheet", "the first contact"),
    Matter("answer", "a request to transfer the account", "deal with somebody who wants to move elsewhere",
           "the request"),
    Matter("calculate", "the net asset value", "work out the price of a unit", "the dealing day"),
    Matter("close", "a dormant account", "shut an account nobody uses", "the last movement"),
    Matter("screen", "its suppliers against the exclusion list", "check our vendors against the bad list", "a change"),
    Matter("encrypt", "portable devices", "lock down the tablets and sticks", "their purchase"),
    Matter("inform", "the depositary of a breach of the investment limits", "say that the fund went over its limits",
           "the breach"),
    Matter("withdraw", "a misleading advertisement", "pull an ad that gave the wrong idea", "the objection"),
    Matter("train", "staff who sell policies", "teach the sales people", "the start of employment"),
    Matter("deposit", "premiums in the separate account", "bank the premiums", "their receipt"),
    Matter("hold", "a meeting of the unit holders", "get the investors together", "the proposal"),
    Matter("cancel", "a policy at the holder's wish", "let somebody out of a policy", "the notice"),
    Matter("assess", "the value of the collateral", "look at what the security is worth", "the last valuation"),
    Matter("suspend", "dealing in units", "stop people getting in and out of the fund", "the decision"),
    Matter("forward", "a misdirected complaint", "pass on a grievance meant for somebody else", "its receipt"),
    Matter("certify", "that its advisers are competent", "vouch for the people who advise", "the last certificate"),
]  # fmt: skip
