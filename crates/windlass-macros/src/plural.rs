//! English plurals, as controller-gen forms them.

/// Words with a plural of their own, also at the end of longer words; later ones go first.
const WORDS: &str = "
aircraft aircraft, beef beef, bison bison, blues blues, chassis chassis, deer deer, fish fish,
moose moose, police police, salmon salmon, series series, sheep sheep, shrimp shrimp,
species species, swine swine, trout trout, tuna tuna, you you, child children, foot feet,
goose geese, man men, human humans, mouse mice, tooth teeth, woman women, person people,
adieu adieux, fabliau fabliaux, bureau bureaus, criterion criteria, ganglion ganglia,
lexicon lexica, mitochondrion mitochondria, noumenon noumena, phenomenon phenomena, taxon taxa,
media media, medium media, stadium stadiums, aquarium aquaria, auditorium auditoria,
symposium symposia, curriculum curriculums, quota quotas, alumnus alumni, bacillus bacilli,
cactus cacti, coccus cocci, focus foci, locus loci, nucleus nuclei, octopus octupuses,
radius radii, syllabus syllabi, corpus corpora, genus genera, alumna alumnae,
vertebra vertebrae, differentia differentiae, minutia minutiae, vita vitae, larva larvae,
postcava postcavae, praecava praecavae, uva uvae, apex apices, codex codices, index indices,
latex latices, vertex vertices, vortex vortices, appendix appendices, radix radices,
helix helices, crisis crises, ellipsis ellipses, genesis geneses, oasis oases, thesis theses,
testis testes, base bases, basis bases, vedalia vedalias, abuse abuses, cause causes,
clause clauses, cruse cruses, excuse excuses, fuse fuses, house houses, misuse misuses,
muse muses, pause pauses, ache aches, topaz topazes, buffalo buffaloes, potato potatoes,
tomato tomatoes, equipment equipment, information information, jeans jeans, money money,
news news, rice rice, dwarf dwarfs, hoof hoofs, thief thieves, chive chives, hive hives,
move moves, movie movies, cookie cookies, pretorium pretoriums, agenda agendas,
formula formulas, shoe shoes, graffiti graffiti";

/// Words with a plural of their own, but not at the end of longer words.
const EXACT: &str = "ox oxen, louse lice, die dice, axis axes, alias aliases, use uses, toe toes";

/// Endings and their plurals; earlier ones go first.
const ENDINGS: &str = "
tive tives, eaf eaves, oaf oaves, afe aves, arf arves, rfe rves, rf rves, lf lves, fe ves,
ay ays, ey eys, oy oys, quy quies, uy uys, y ies, eau eaux, bula bulae, dula bulae, lula bulae,
nula bulae, vula bulae, hedron hedra, ium ia, seum seums, eum ea, oum oa, stracum straca,
dum da, elum ela, ilum ila, olum ola, ulum ula, llum lla, ylum yla, imum ima, ernum erna,
gnum gna, brum bra, crum cra, terum tera, serum sera, trum tra, antum anta, atum ata,
entum enta, etum eta, itum ita, otum ota, utum uta, ctum cta, ovum ova, trix trices,
iasis iases, mesis meses, kinesis kineses, resis reses, gnosis gnoses, opsis opses, ysis yses,
ouse ouses, lause lauses, us uses, ch ches, io ios, sh shes, ss sses, ez ezzes, iz izzes,
tz tzes, zz zzes, ano anos, lo los, to tos, oo oos, o oes, x xes";

/// Returns the plural of a word in lower case.
pub fn plural(word: &str) -> String {
    let known = || pairs(WORDS).chain(pairs(EXACT));
    if let Some((_, plural)) = known().find(|(singular, _)| *singular == word) {
        return plural.to_owned();
    }
    if known().any(|(_, plural)| plural == word) {
        return word.to_owned();
    }
    let mut words: Vec<(&str, &str)> = pairs(WORDS).collect();
    words.reverse();
    for (singular, plural) in words.into_iter().chain(pairs(ENDINGS)) {
        if word.ends_with(plural) {
            return word.to_owned();
        }
        if let Some(stem) = word.strip_suffix(singular) {
            return format!("{stem}{plural}");
        }
    }
    if word.ends_with('s') { word.to_owned() } else { format!("{word}s") }
}

fn pairs(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.split(',').filter_map(|pair| pair.trim().split_once(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_controller_gen() {
        let cases = [
            ("gadget", "gadgets"),
            ("policy", "policies"),
            ("gateway", "gateways"),
            ("bus", "buses"),
            ("box", "boxes"),
            ("batch", "batches"),
            ("mesh", "meshes"),
            ("analysis", "analyses"),
            ("index", "indices"),
            ("person", "people"),
            ("datum", "data"),
            ("settings", "settings"),
            ("memcached", "memcacheds"),
            ("backupschedule", "backupschedules"),
            ("ingressclass", "ingressclasses"),
            ("redis", "redis"),
            ("cache", "caches"),
            ("workerchild", "workerchildren"),
            ("virtualmachine", "virtualmachines"),
            ("alias", "aliases"),
            ("video", "videoes"),
        ];
        for (singular, expected) in cases {
            assert_eq!(plural(singular), expected);
        }
    }
}
